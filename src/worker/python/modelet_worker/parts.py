"""
A result that comes in parts: what `predict` gives is a generator, or any other iterator. Its parts are sent as they come,
or gathered where nobody wants them one by one. src/worker/stream.ts and parts-out.ts do the same for JavaScript.

Between two parts the worker reads what has come: it would not hear otherwise that a result is not wanted any more.
"""
from collections import deque
from typing import Any, Callable, Deque, Iterator, List, NamedTuple, Optional

from .attempt import Done, Failed, attempt
from .codec import Payload, decode_payload
from .errors import ModeletError
from .frames import Item, Reply

# Parts that have been sent and not taken, from which on the next one waits; and the same in bytes. One may be larger.
MOST_UNDER_WAY = 16
MOST_BYTES_UNDER_WAY = 1024 * 1024


class PartsOut:
    """
    The way out for the parts of a result, one result at a time. The flow says how many it has taken, and no more than a
    few are under way: a result without end waits for whoever reads it.
    """

    def __init__(self, send: Callable[[Reply], None], hear: Callable[[bool], None]) -> None:
        """`hear` takes in what has come for the worker; where it is told so, it waits until something has."""
        self._send = send
        self._hear = hear
        self._id: Optional[float] = None
        self._sizes: Deque[int] = deque()
        self._taken = 0

    def begin(self, id_: float) -> None:
        self._id = id_
        self._sizes.clear()
        self._taken = 0

    def send(self, part: Reply) -> None:
        self._sizes.append(part.length)
        self._send(part)

    def taken(self, id_: float, parts: int) -> None:
        """So many parts of this request have been taken."""
        if id_ != self._id:
            return
        while self._taken < parts and self._sizes:
            self._sizes.popleft()
            self._taken += 1

    def hear(self, is_wanted: Callable[[], bool]) -> None:
        """Takes in what has come, and waits until the next part may be sent; not for one that is not wanted."""
        self._hear(False)
        while self._is_full() and is_wanted():
            self._hear(True)

    def _is_full(self) -> bool:
        return len(self._sizes) >= MOST_UNDER_WAY or sum(self._sizes) >= MOST_BYTES_UNDER_WAY


class PartSteps(NamedTuple):
    # What becomes of a part: postprocess, and the check of what comes out.
    finish: Callable[[Any], Any]
    encode: Callable[[Any], Payload]
    # Why the request is not to be gone on with.
    unwanted: Callable[[], Optional[Failed]]
    # None: nobody hears of parts, and nothing is heard of who waits.
    out: Optional[PartsOut]
    # Of all parts together, where they are gathered.
    most_bytes: int


def is_in_parts(value: Any) -> bool:
    """Lists, dicts and texts can be iterated too, and are results as they are."""
    return hasattr(type(value), "__next__")


def run_parts(source: Iterator[Any], item: Item, steps: PartSteps) -> Any:
    """
    Takes the parts to the end. The result is what the generator returns; where that is None, None if its parts have been
    sent, else the list of all of them. Raises only what ends the process: a channel that is gone, SystemExit.
    """
    out = steps.out
    if out:
        out.begin(item.id)
    result = _run(source, item, steps, out)
    if isinstance(result, Failed):
        # Runs the finally blocks. What goes wrong then does not matter any more.
        attempt(getattr(source, "close", int))
    return result


def _run(source: Iterator[Any], item: Item, steps: PartSteps, out: Optional[PartsOut]) -> Any:
    sends = item.streams and out is not None
    gathered: List[Any] = []
    size = 0
    index = 0
    while True:
        step = _take(source, steps)
        if isinstance(step, Failed):
            return step
        if isinstance(step, Done):
            return step if step.value is not None else Done(None if sends else gathered)
        payload = step
        if sends:
            out.send(Reply(item.id, True, payload.codec, payload.parts, payload.length, ref=index))
            index += 1
        else:
            # As it is now: a generator may yield the same object again, changed.
            gathered.append(decode_payload(payload.codec, memoryview(b"".join(payload.parts))))
            size += payload.length
            if size > steps.most_bytes:
                message = f"the parts of the result are more than {steps.most_bytes} bytes together"
                return Failed(ModeletError("modelet_failed", message))
        if out:
            out.hear(lambda: steps.unwanted() is None)
            reason = steps.unwanted()
            if reason is not None:
                return reason


def _take(source: Iterator[Any], steps: PartSteps) -> Any:
    """The payload of the next part, the end, or what keeps the request from being gone on with."""
    step = attempt(_next, source)
    if isinstance(step, Failed):
        return step
    reason = steps.unwanted()
    if reason is not None or isinstance(step, Done):
        return reason or step
    value = steps.finish(step)
    if isinstance(value, Failed):
        return value
    return attempt(steps.encode, value)


def _next(source: Iterator[Any]) -> Any:
    try:
        return next(source)
    except StopIteration as end:
        return Done(end.value)
