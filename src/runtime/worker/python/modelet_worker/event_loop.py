"""
Serves an async modelet: an asyncio loop runs up to `places` calls at a time, all in one thread. src/runtime/worker/calls.ts
does the same for JavaScript.

This module is imported only for async modelets, because asyncio takes longer to import than the rest of the worker.
"""
import asyncio
from typing import Any, Callable, Coroutine, Deque, Dict, List, Optional, Sequence

from .frames import Channel, Frame


class EventLoop:
    def __init__(
        self,
        places: int,
        channel: Channel,
        waiting: Deque[Frame],
        receive: Callable[[Frame], None],
        serve: Callable[[Frame], Coroutine[Any, Any, None]],
    ) -> None:
        """`waiting`: frames to serve, which `receive` appends. `serve` runs one of them and sends its reply."""
        self._places = places
        self._channel = channel
        self._waiting = waiting
        self._receive = receive
        self._serve = serve
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._running: Dict["asyncio.Task[None]", Frame] = {}
        # The requests for which code of the modelet runs in a task.
        self._calls: Dict["asyncio.Task[None]", Sequence[float]] = {}
        # Calls that a timer will make.
        self._due: "set[Callable[[], Any]]" = set()
        # Tasks that serve no frame.
        self._beside: "set[asyncio.Task[None]]" = set()
        self._is_starting = False
        self._is_closing = False
        self._ended: "asyncio.Future[None]" = self._loop.create_future()
        # Tasks that wait for the next frame.
        self._listening: List["asyncio.Future[None]"] = []

    @property
    def frames(self) -> List[Frame]:
        """The frames that are being served."""
        return list(self._running.values())

    def complete(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Runs a coroutine to its end while nothing else runs."""
        return self._loop.run_until_complete(coroutine)

    def serve_until_closed(self) -> None:
        """Returns after `close`, when all waiting frames are served. Raises whatever ends the process."""
        self._loop.add_reader(self._channel.fileno(), self._read)
        # Frames that arrived with the first ones may be in the channel's memory already.
        self._loop.call_soon(self._read)
        self._loop.run_until_complete(self._ended)
        self._loop.remove_reader(self._channel.fileno())

    def close(self) -> None:
        self._is_closing = True
        self._loop.call_soon(self._start)

    def later(self, seconds: float, call: Callable[[], Any]) -> None:
        """Calls in so many seconds, unless that call is due already, or the loop is closing then."""
        if call in self._due:
            return
        self._due.add(call)

        def run() -> None:
            self._due.discard(call)
            if not self._is_closing:
                call()

        self._loop.call_later(seconds, run)

    def run_beside(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Runs a coroutine beside the frames. The loop closes after its end."""
        task = self._loop.create_task(coroutine)
        self._beside.add(task)
        task.add_done_callback(self._done)

    def begin(self, ids: Sequence[float]) -> None:
        """Notes that the present task runs code of the modelet for these requests. None: it must not be cancelled."""
        task = asyncio.current_task()
        if task in self._running:
            self._calls[task] = ids

    def cancel(self, is_cancelled: Callable[[float], bool]) -> None:
        """Cancels the calls of which no request is wanted any more."""
        for task, ids in list(self._calls.items()):
            if ids and all(is_cancelled(id_) for id_ in ids):
                del self._calls[task]
                task.cancel()

    async def hear(self, waits: bool) -> None:
        """Lets the loop receive frames between two parts of a result. If `waits`, waits for at least one frame."""
        try:
            if not waits:
                await asyncio.sleep(0)
                return
            heard = self._loop.create_future()
            self._listening.append(heard)
            await heard
        except asyncio.CancelledError:
            # The request was cancelled. The caller looks whether it is still wanted.
            uncancel()

    def _read(self) -> None:
        try:
            while self._channel.wait(0):
                self._receive(self._channel.read())
        except BaseException as error:
            self._end(error)
            return
        for heard in self._listening:
            if not heard.done():
                heard.set_result(None)
        self._listening.clear()
        self._start_soon()

    def _start_soon(self) -> None:
        if not self._is_starting:
            self._is_starting = True
            self._loop.call_soon(self._start)

    def _start(self) -> None:
        """
        Starts the next frame if a place is free. The engine is told first, so that it knows what had begun if the
        worker dies. The frame after it starts in a later turn: code that does not await runs in turn.
        """
        self._is_starting = False
        if self._waiting and len(self._running) < self._places:
            frame = self._waiting.popleft()
            if self._places > 1:
                self._channel.send("began", {"batch": frame.batch if frame.type == "batch" else None})
            task = self._loop.create_task(self._serve(frame))
            self._running[task] = frame
            task.add_done_callback(self._done)
            self._start_soon()
        elif self._is_closing and not (self._running or self._beside or self._waiting):
            self._end(None)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._running.pop(task, None)
        self._beside.discard(task)
        self._calls.pop(task, None)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            self._end(error)
        else:
            self._start_soon()

    def _end(self, error: Optional[BaseException]) -> None:
        if self._ended.done():
            return
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)


def uncancel() -> None:
    """Forgets a cancellation that was handled. Python counts them from version 3.11 on."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return  # No loop runs: plain code has raised the error.
    if task is not None and hasattr(task, "uncancel"):
        task.uncancel()
