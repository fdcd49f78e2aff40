"""
Continuous batching: runs a modelet with the method `step`. All its sequences take each step together, a new one joins
before the next step, and a request that has ended gives its place to the next request at once. To the rest of the worker each
sequence is a call of `predict`. src/runtime/worker/modelet/step-loop.ts does the same for JavaScript.

This module is imported only for such modelets, because of asyncio.
"""
import asyncio
import contextvars
from collections import deque
from typing import Any, Callable, Deque, List, Optional

from . import forks

# A sequence takes no step while so many of its parts wait for their reader.
MOST_AHEAD = 16
# A task that a step awaits may have been cancelled.
FAILURES = (Exception, asyncio.CancelledError)


class Sequence:
    """
    A request within a modelet that runs step by step. It ends with `end` or `fail`, whichever the modelet calls first;
    a request that is cancelled or late takes no further step, and what the modelet still says of it is ignored.

    `input`: what `preprocess` returned, or the input. `state`: the modelet's own, None in the sequence's first step.
    """

    def __init__(self, value: Any, on_room: Callable[[], None]) -> None:
        self.input = value
        self.state: Any = None
        self._parts: Deque[Any] = deque()
        self._on_room = on_room
        self._error: Optional[BaseException] = None
        self._result: Any = None
        # "ended": by the modelet; "left": no request waits for it any more.
        self._end: Optional[str] = None
        self._changed: Optional["asyncio.Future[None]"] = None

    def emit(self, part: Any) -> None:
        """
        Gives the next part of the result, which passes `postprocess`. Do not change the part afterwards. A sequence
        whose client has 16 parts to read takes no step until it has read some. Raises RuntimeError after the end.
        """
        if self._end == "left":
            return
        if self._end:
            raise RuntimeError("emit: the sequence has ended")
        self._parts.append(part)
        self._tell()

    def end(self, result: Any = None) -> None:
        """Ends the sequence. Without parts, `result` is the result of the request; after parts it follows them."""
        self._settle("ended", result)

    def fail(self, error: Any) -> None:
        """Ends the sequence with an exception, or a text, of which the others hear nothing."""
        self._settle("ended", None, error if isinstance(error, FAILURES) else RuntimeError(str(error)))

    def _leave(self) -> None:
        self._settle("left", None)

    def _settle(self, end: str, result: Any, error: Optional[BaseException] = None) -> None:
        if self._end:
            return
        self._end, self._result, self._error = end, result, error
        self._tell()
        self._on_room()

    def _tell(self) -> None:
        if self._changed and not self._changed.done():
            self._changed.set_result(None)

    async def _outcome(self) -> Any:
        """Returns the result, or an iterator as soon as there is a part."""
        await self._something()
        return _Parts(self) if self._parts else self._value()

    async def _something(self) -> None:
        while not self._parts and not self._end:
            self._changed = asyncio.get_running_loop().create_future()
            try:
                await self._changed
            except asyncio.CancelledError:
                self._leave()
                raise

    def _value(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result


class _Parts:
    """The parts of a sequence, and its result as their end."""

    def __init__(self, sequence: Sequence) -> None:
        self._sequence = sequence

    def __aiter__(self) -> "_Parts":
        return self

    async def __anext__(self) -> Any:
        sequence = self._sequence
        await sequence._something()
        if sequence._parts:
            part = sequence._parts.popleft()
            sequence._on_room()
            return part
        raise StopAsyncIteration(sequence._value())

    async def aclose(self) -> None:
        self._sequence._leave()


class StepLoop:
    def __init__(self, step: Callable[[List[Sequence]], Any]) -> None:
        self._step = step
        self._active: List[Sequence] = []
        self._task: Optional["asyncio.Task[None]"] = None
        self._room: Optional["asyncio.Future[None]"] = None
        # Steps run outside the call that begins them: they belong to other calls too.
        self._context = contextvars.copy_context()

    async def predict(self, value: Any) -> Any:
        """Returns the result, or an async iterator as soon as the sequence has emitted a part."""
        sequence = Sequence(value, self._wake)
        self._active.append(sequence)
        self._wake()
        if self._task is None:
            self._task = self._context.run(asyncio.get_running_loop().create_task, self._take_steps())
        return await sequence._outcome()

    async def _take_steps(self) -> None:
        while True:
            # Requests that have come join, parts leave, and cancellations arrive.
            await asyncio.sleep(0)
            self._active = [sequence for sequence in self._active if not sequence._end]
            if not self._active:
                break
            ready = [sequence for sequence in self._active if len(sequence._parts) < MOST_AHEAD]
            if ready:
                await self._step_all(ready)
            else:
                self._room = asyncio.get_running_loop().create_future()
                await self._room
        self._task = None

    async def _step_all(self, sequences: List[Sequence]) -> None:
        try:
            stepped = self._step(list(sequences))
            if hasattr(type(stepped), "__await__"):
                await stepped
        except FAILURES as raised:
            forks.leave(raised)
            for sequence in sequences:
                sequence.fail(raised)

    def _wake(self) -> None:
        if self._room and not self._room.done():
            self._room.set_result(None)
