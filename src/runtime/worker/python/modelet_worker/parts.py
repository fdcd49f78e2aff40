"""
Runs a result in parts: a generator, an async generator or another iterator that `predict` returned. Sends the parts as they come, or gathers
them if the request does not stream. src/runtime/worker/batch/stream.ts does the same for JavaScript.

Between two parts the worker reads its frames; otherwise it would not receive a cancellation.
"""
from collections import deque
from typing import Any, Awaitable, Callable, Deque, Dict, List, NamedTuple, Optional

from .attempt import PLAIN, Done, Failed, attempt, attempt_now
from .codec import Payload, decode_payload
from .errors import ModeletError
from .frames import Item, Reply

# The next part waits while this many parts, or this many bytes, are sent but not taken. A single part may be larger.
MOST_UNDER_WAY = 16
MOST_BYTES_UNDER_WAY = 1024 * 1024


class _UnderWay:
    """Sizes of the parts of one result that are sent but not taken."""

    def __init__(self) -> None:
        self.sizes: Deque[int] = deque()
        self.taken = 0

    def is_full(self) -> bool:
        return len(self.sizes) >= MOST_UNDER_WAY or sum(self.sizes) >= MOST_BYTES_UNDER_WAY


class PartsOut:
    """
    Sends the parts of results. The flow acknowledges the parts it has taken. For each result the number of
    unacknowledged parts is limited, so that an endless result waits for its reader.
    """

    def __init__(self, send: Callable[[Reply], None], hear: Callable[[bool], Awaitable[None]]) -> None:
        """`hear` receives the worker's pending frames. If its argument is true, it waits for at least one frame."""
        self._send = send
        self._hear = hear
        self._results: Dict[float, _UnderWay] = {}

    def begin(self, id_: float) -> None:
        self._results[id_] = _UnderWay()

    def end(self, id_: float) -> None:
        self._results.pop(id_, None)

    def send(self, part: Reply) -> None:
        self._results[part.id].sizes.append(part.length)
        self._send(part)

    def taken(self, id_: float, parts: int) -> None:
        """Notes how many parts of the request the flow has taken in total."""
        result = self._results.get(id_)
        while result and result.taken < parts and result.sizes:
            result.sizes.popleft()
            result.taken += 1

    async def hear(self, id_: float, is_wanted: Callable[[], bool]) -> None:
        """Receives pending frames, then waits until the next part may be sent or the request is no longer wanted."""
        await self._hear(False)
        while self._results[id_].is_full() and is_wanted():
            await self._hear(True)


class PartSteps(NamedTuple):
    # Runs postprocess on a part and checks its output.
    finish: Callable[[Any], Awaitable[Any]]
    encode: Callable[[Any], Payload]
    # Returns the failure if the request was cancelled or its deadline has passed, else None.
    unwanted: Callable[[], Optional[Failed]]
    # None for examples: their parts are gathered, and no frames are read.
    out: Optional[PartsOut]
    # Limit for all gathered parts together.
    most_bytes: int


def is_in_parts(value: Any) -> bool:
    """Whether the value is an iterator. Lists, dicts and strings can be iterated too, but they are plain results."""
    kind = type(value)
    return kind not in PLAIN and (hasattr(kind, "__next__") or hasattr(kind, "__anext__"))


async def run_parts(source: Any, item: Item, steps: PartSteps) -> Any:
    """
    Runs the source to its end. The result is the generator's return value. If that is None, the result is None if the
    parts were sent, else a list of all parts. Raises only exceptions that end the process: a lost channel, SystemExit.
    """
    out = steps.out
    if out:
        out.begin(item.id)
    result = await _run(source, item, steps, out)
    if out:
        out.end(item.id)
    if isinstance(result, Failed):
        # Runs the finally blocks. Ignores their errors, because the result has failed already.
        await attempt(getattr(source, "aclose", None) or getattr(source, "close", int))
    return result


async def _run(source: Any, item: Item, steps: PartSteps, out: Optional[PartsOut]) -> Any:
    sends = item.streams and out is not None
    gathered: List[Any] = []
    size = 0
    index = 0
    while True:
        step = await _take(source, steps)
        if isinstance(step, Failed):
            return step
        if isinstance(step, Done):
            return step if step.value is not None else Done(None if sends else gathered)
        payload = step
        if sends:
            out.send(Reply(item.id, True, payload.codec, payload.parts, payload.length, part=index))
            index += 1
        else:
            # Keep a copy, because a generator may change the object and yield it again.
            gathered.append(decode_payload(payload.codec, memoryview(b"".join(payload.parts))))
            size += payload.length
            if size > steps.most_bytes:
                message = f"the parts of the result are more than {steps.most_bytes} bytes together"
                return Failed(ModeletError("modelet_failed", message))
        if out:
            await out.hear(item.id, lambda: steps.unwanted() is None)
            reason = steps.unwanted()
            if reason is not None:
                return reason


async def _take(source: Any, steps: PartSteps) -> Any:
    """Returns the payload of the next part, Done at the end, or Failed if the request cannot continue."""
    step = await attempt(_next_async if hasattr(type(source), "__anext__") else _next, source)
    if isinstance(step, Failed):
        return step
    reason = steps.unwanted()
    if reason is not None or isinstance(step, Done):
        return reason or step
    value = await steps.finish(step)
    if isinstance(value, Failed):
        return value
    return attempt_now(steps.encode, value)


async def _next_async(source: Any) -> Any:
    try:
        return await source.__anext__()
    except StopAsyncIteration as end:
        # An async generator has no return value, but a sequence may end with one; see step_loop.py.
        return Done(end.args[0] if end.args else None)


def _next(source: Any) -> Any:
    try:
        return next(source)
    except StopIteration as end:
        return Done(end.value)
