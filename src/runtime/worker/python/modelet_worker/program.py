"""
Runs the worker: loads one modelet, serves batches, and ends. All of it runs in one thread. The thread reads pending
frames between two batches and between two parts of a result, so that it does not run a cancelled request. For an async
modelet an event loop reads them at any time; see event_loop.py.
"""
import atexit
import base64
import faulthandler
import os
import resource
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Coroutine, Deque, Dict, List, NamedTuple, NoReturn, Optional, Set, Union

from . import forks
from .attempt import Failed, attempt, finish
from .batch import Run, now, run_batch
from .describe import describe
from .errors import encode_error, stack_of
from .examples import try_example, warm_up
from .frames import Channel, Frame, MalformedFrame
from .key_states import KeyStates
from .metrics import Metrics
from .modelet import (
    Call,
    Context,
    LoadedModelet,
    Log,
    explained,
    is_lasting,
    load,
)
from .parts import PartsOut
from .preload import exported_by
from .proof import proven
from .schemas import input_schema_of, output_check_of
from .touched_files import TouchedFiles

if TYPE_CHECKING:
    from .event_loop import EventLoop
    from .template import Template

BUILD_ID = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "build-id.txt")
USAGE_INTERVAL_S = 1.0
LONGEST_PROGRESS = 200
# Enough for the deepest values that the codec accepts.
RECURSION_LIMIT = 5000


def main() -> NoReturn:
    if sys.argv[1:] == ["template"]:
        from .template import Template

        run_program(Template)
    run_program(Program)


def run_program(begin: Callable[[Channel], Union["Program", "Template"]]) -> NoReturn:
    channel = Channel()
    forks.prepare(channel.close)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    # Prints the traceback if native code crashes.
    faulthandler.enable()
    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))
    program = begin(channel)
    try:
        channel.send("report", {"state": "startup", "build": _build_id(), "slots": True})
        program.run()
    except BaseException as error:
        forks.leave(error)
        _ended_by(error, channel, program)
    _end(0)


def _ended_by(error: BaseException, channel: Channel, program: Union["Program", "Template"]) -> NoReturn:
    if isinstance(error, (EOFError, BrokenPipeError, ConnectionResetError)):
        _end(0)  # The parent is gone.
    if isinstance(error, SystemExit):
        _end(forks.exit_code_of(error))
    lasts = program.is_loading or is_lasting(error)
    # The parent reports what would come again, such as why the code does not load, once for all workers.
    if not lasts:
        print(stack_of(error), file=sys.stderr)
    if not isinstance(error, MalformedFrame):
        _report_error(channel, error, lasts, program.touched)
    _end(1)


def _build_id() -> str:
    try:
        with open(BUILD_ID, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def _report_error(channel: Channel, error: BaseException, lasts: bool, touched: TouchedFiles) -> None:
    touched.end(error)
    more = {"loading": lasts, "files": touched.all()}
    try:
        channel.send("report", {"state": "error", "error": _as_text(error), **more})
    except OSError:
        pass


def _as_text(error: BaseException) -> str:
    return base64.b64encode(encode_error(error)).decode("ascii")


def _end(code: int) -> NoReturn:
    """Ends the process even if threads of the modelet still run."""
    try:
        forks.end_executors()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code & 0xFF)


class Preloaded(NamedTuple):
    """What a template has loaded for its workers: the modelet's function or class, and the files that it touched."""

    exported: Any
    touched: TouchedFiles


class Program:
    def __init__(self, channel: Channel, preloaded: Optional[Preloaded] = None) -> None:
        self._channel = channel
        self._preloaded = preloaded
        self._waiting: Deque[Frame] = deque()
        self._cancelled: Set[float] = set()
        self._closing = False
        self._modelet: Optional[LoadedModelet] = None
        # Runs async modelets; None for others.
        self._loop: Optional["EventLoop"] = None
        # Whether the modelet's code is loading or failed to load. False once `setup` begins.
        self.is_loading = False
        self.touched = preloaded.touched if preloaded else TouchedFiles()
        self._run = Run("", 0, self._cancelled.__contains__)
        self._parts = PartsOut(channel.part, self._hear)
        # None: the stage has no keys.
        self._keys: Optional[KeyStates] = None
        self._metrics = Metrics()
        self._usage = UsageReporter(channel, self._metrics)

    def run(self) -> None:
        """Returns after a close frame, when all waiting frames are served and the modelet is torn down."""
        while True:
            while not self._loop and self._channel.wait(self._usage.tell_within(self._longest_wait())):
                self._receive(self._channel.read())
            if self._loop:
                self._loop.serve_until_closed()
                break
            if self._waiting:
                finish(self._serve(self._waiting.popleft()))
            elif self._closing:
                break
            elif self._keys:
                finish(self._keys.end_idle())
        self._complete(self._tear_down())

    def _longest_wait(self) -> Optional[float]:
        if self._waiting or self._closing:
            return 0
        return self._keys.wait() if self._keys else None

    def _complete(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.complete(coroutine) if self._loop else finish(coroutine)

    async def _hear(self, waits: bool) -> None:
        """Receives pending frames between two parts of a result. If `waits`, waits for at least one frame."""
        self._usage.tell_within(0)
        while self._channel.wait(None if waits else 0):
            self._receive(self._channel.read())
            waits = False

    def _receive(self, frame: Frame) -> None:
        if frame.type == "load":
            with explained(frame.body["modelet"]["source"].get("path")):
                self._load(frame.body)
        elif frame.type in ("batch", "try"):
            if self._modelet is None:
                raise MalformedFrame("a batch or an example came before the modelet was loaded")
            self._waiting.append(frame)
        elif frame.type == "cancel":
            self._cancelled.update(frame.body)
            if self._loop:
                self._loop.cancel(self._cancelled.__contains__)
        elif frame.type == "taken":
            for id_, parts in frame.body:
                self._parts.taken(id_, parts)
        elif frame.type == "close":
            # The parent kills at the deadline. The time until then is for the waiting frames and for teardown.
            self._channel.send("report", {"state": "shutdown"})
            self._closing = True
            if self._loop:
                self._loop.close()
        else:
            raise MalformedFrame(f"a worker does not take {frame.type} frames")

    def _load(self, boot: Any) -> None:
        definition = boot["modelet"]
        context = Context(boot["stage"], boot["worker"], boot["cpus"], Log(self._log), self._metrics, self._progress)
        self.is_loading = True
        self.touched.begin()
        places = definition["concurrency"]
        modelet = self._modelet_of(definition, context)
        input_schema = input_schema_of(definition, modelet)
        check = output_check_of(definition, modelet)
        run = Run(boot["stage"], boot["maxPayloadBytes"], self._cancelled.__contains__, check, self._parts)
        self._run = run._replace(emits_lists=definition["emits"] == "list")
        if definition["keyBy"]:
            end = lambda key, state: _end_key(modelet.on_key_end, key, state)  # noqa: E731
            self._keys = KeyStates(definition, end)
            self._run = self._run._replace(keys=self._keys)
        if modelet.is_async:
            self._use_loop(places)
        self.is_loading = False
        self._complete(_call(modelet.setup))
        with self._metrics.quietly():
            modelet = self._complete(proven(modelet, boot["batchSize"], self._run))
            self._complete(warm_up(modelet, boot["batchSize"], self._run))
        self.touched.end()
        self._modelet = modelet
        description = describe(modelet, definition, context.log)
        loaded = {"examples": len(modelet.examples), "description": description, "files": self.touched.all()}
        self._channel.send("loaded", loaded if input_schema is None else {**loaded, "inputSchema": input_schema})
        self._channel.send("report", {"state": "ready"})
        self._usage.note()

    def _modelet_of(self, definition: Dict[str, Any], context: Context) -> LoadedModelet:
        if definition["source"]["kind"] == "python-code":
            # Imported only for typed code: the parser takes time to import.
            from .typed import load_typed

            return load_typed(definition, context)
        if definition["preload"] and sys.platform != "linux" and context.worker == 0:
            context.log.info("only Linux shares a loaded model between workers: each of them loads its own")
        exported = self._preloaded.exported if self._preloaded else exported_by(definition, self)
        batches = definition["predict"] == "batch"
        path = definition["source"]["path"]
        return load(exported, path, definition["init"], batches, definition["concurrency"], context)

    def _use_loop(self, places: int) -> None:
        from .event_loop import EventLoop

        loop = EventLoop(places, self._channel, self._waiting, self._receive, self._serve)
        self._loop = loop
        self._parts = PartsOut(self._channel.part, loop.hear)
        self._run = self._run._replace(parts=self._parts, begin=loop.begin)

    def _log(self, level: str, message: str) -> None:
        if forks.is_child:
            print(message, file=sys.stderr)
            return
        self._channel.send("log", {"level": level, "message": message})

    def _progress(self, done: Any) -> None:
        if forks.is_child or self._modelet is not None:
            return
        is_share = isinstance(done, (int, float)) and not isinstance(done, bool)
        text = f"{round(done * 100)} %" if is_share else str(done)
        self._channel.send("progress", text[:LONGEST_PROGRESS])

    async def _serve(self, frame: Frame) -> None:
        if frame.type == "try":
            await self._try(frame.body)
        else:
            started_at = now()
            calls: List[None] = []
            run = self._run._replace(called=lambda: calls.append(None))
            replies = await run_batch(self._modelet, frame.items, run)
            self._channel.reply(frame.batch, now() - started_at, len(calls), replies)
        self._usage.note()
        if self._keys:
            await self._keys.end_idle()
        if self._loop:
            self._tell_usage_later(self._loop)
            self._end_keys_later(self._loop)
        if self._cancelled:
            # Prune after each batch: the worker may never be idle.
            others = self._loop.frames if self._loop else []
            batches = [one for one in [*others, *self._waiting] if one.type == "batch" and one is not frame]
            self._cancelled.intersection_update([item.id for batch in batches for item in batch.items])

    def _tell_usage_later(self, loop: "EventLoop") -> None:
        left = self._usage.tell_within(None)
        if left is not None:
            loop.later(left, self._tell_usage)

    def _tell_usage(self) -> None:
        self._usage.tell_within(None)

    def _end_keys_later(self, loop: "EventLoop") -> None:
        left = self._keys.wait() if self._keys else None
        if left is not None:
            loop.later(left, self._end_keys)

    def _end_keys(self) -> None:
        if self._loop and self._keys:
            self._loop.run_beside(self._end_idle(self._loop, self._keys))

    async def _end_idle(self, loop: "EventLoop", keys: KeyStates) -> None:
        await keys.end_idle()
        self._end_keys_later(loop)

    async def _try(self, body: Any) -> None:
        with self._metrics.quietly():
            error = await try_example(self._modelet, body["example"], body["deadline"], self._run)
        text = base64.b64encode(error).decode("ascii") if error is not None else None
        self._channel.send("tried", {"example": body["example"], "error": text})

    async def _tear_down(self) -> None:
        try:
            if self._keys:
                await self._keys.close()
            if self._modelet is not None:
                await _call(self._modelet.teardown)
        except Exception as raised:
            print(stack_of(raised), file=sys.stderr)
        if self._metrics.changed:
            self._usage.tell()


async def _end_key(method: Optional[Call], key: str, state: Any) -> None:
    ended = await attempt(method, key, state) if method else None
    if isinstance(ended, Failed):
        print(stack_of(ended.error), file=sys.stderr)


async def _call(method: Call) -> None:
    value = method()
    if hasattr(type(value), "__await__"):
        await value


class UsageReporter:
    """Reports the worker's memory, its CPU time and its modelet's metrics after it has run, at most once a second."""

    def __init__(self, channel: Channel, metrics: Metrics) -> None:
        self._channel = channel
        self._metrics = metrics
        self._due_at = 0.0
        self._noted = False

    def note(self) -> None:
        self._noted = True
        self.tell_within(0)

    def tell_within(self, seconds: Optional[float]) -> Optional[float]:
        """Sends a noted report if it is due. Returns how long to wait: `seconds`, or less if one is due earlier."""
        if not self._noted and not self._metrics.changed:
            # A thread of the modelet may change a metric while no frame comes.
            return USAGE_INTERVAL_S if seconds is None and self._metrics.declared else seconds
        left = self._due_at - time.monotonic()
        if left > 0:
            return left if seconds is None else min(seconds, left)
        self.tell()
        return self.tell_within(seconds)

    def tell(self) -> None:
        """Sends a report now, whenever the last one was."""
        self._noted = False
        self._due_at = time.monotonic() + USAGE_INTERVAL_S
        cpu_ms = time.process_time() * 1000
        usage = {"rssBytes": resident_bytes(), "cpuMs": cpu_ms}
        own = self._metrics.take()
        self._channel.send("usage", usage if own is None else {**usage, "own": own})


def resident_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
