"""
Runs the template of a stage: loads what all of its workers need, and then forks a worker for each order of the engine. The
workers share that memory with it as long as they do not write there. It runs no request.
"""
import ctypes
import gc
import os
import select
import signal
import socket
import sys
import traceback
from typing import Any, Dict, NoReturn, Optional

from . import forks
from .frames import CHANNEL_FD, Channel, Frame, MalformedFrame
from .modelet import explained
from .preload import exported_by
from .program import Preloaded, Program, run_program
from .touched_files import TouchedFiles

TREE = "MODELET_PROCESS_TREE"
PR_SET_PDEATHSIG = 1
# Where the streams of a worker belong, in the order of their numbers in its calls.
STREAMS = (1, 2, CHANNEL_FD)


class Template:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        # As in Program.
        self.is_loading = False
        self.touched = TouchedFiles()
        self._preloaded: Optional[Preloaded] = None
        # The marks of the workers that live, by process id.
        self._workers: Dict[int, str] = {}
        # Gets a byte when a process that it has forked ends.
        self._ends, self._end = socket.socketpair()
        self._ends.setblocking(False)
        self._end.setblocking(False)

    def run(self) -> None:
        """Returns after a close frame."""
        while True:
            while self._channel.wait(0):
                frame = self._channel.read()
                if frame.type == "close":
                    return
                self._receive(frame)
            self._tell_ends()
            select.select([self._channel, self._ends], [], [])

    def _receive(self, frame: Frame) -> None:
        if frame.type == "load":
            with explained(frame.body["modelet"]["source"]["path"]):
                self._load(frame.body["modelet"])
        elif frame.type == "fork":
            self._fork(frame.body)
        else:
            raise MalformedFrame(f"a template does not take {frame.type} frames")

    def _load(self, definition: Dict[str, Any]) -> None:
        self.is_loading = True
        self.touched.begin()
        exported = exported_by(definition, self)
        self.is_loading = False
        self.touched.end()
        self._preloaded = Preloaded(exported, self.touched)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(self._end.fileno(), warn_on_full_buffer=False)
        # A collection would write to all objects, and so copy them into each worker.
        gc.collect()
        gc.freeze()
        self._channel.send("report", {"state": "ready"})

    def _fork(self, order: Dict[str, Any]) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        template = os.getpid()
        try:
            pid = forks.fork_worker()
        except OSError as error:
            self._channel.send("exited", {"mark": order["mark"], "how": f"could not be forked: {error}"})
            return
        if pid:
            self._workers[pid] = order["mark"]
            return
        try:
            self._begin(order, template)
        except BaseException:
            traceback.print_exc()
        # The channel is that of the template: nothing may reach it from here.
        os._exit(1)

    def _begin(self, order: Dict[str, Any], template: int) -> NoReturn:
        """Makes the forked process a worker as if the engine had launched it."""
        _end_with(template)
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        tree = f"{os.environ.get(TREE, '')}/{order['mark']}"
        os.environ.clear()
        os.environ.update({**order["env"], TREE: tree})
        if order["cpus"] is not None:
            os.sched_setaffinity(0, order["cpus"])
        calls = [_call(order, number) for number in range(len(STREAMS))]
        # The engine knows the worker from now on. Or it has given it up, and closes its calls.
        if not calls[-1].recv(1):
            os._exit(0)
        self._ends.close()
        self._end.close()
        self._channel.close()
        for call, number in zip(calls, STREAMS):
            os.dup2(call.fileno(), number)
        for call in calls:
            call.close()
        preloaded = self._preloaded
        run_program(lambda channel: Program(channel, preloaded))

    def _tell_ends(self) -> None:
        try:
            while self._ends.recv(4096):
                pass
        except BlockingIOError:
            pass
        for pid in list(self._workers):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._channel.send("exited", {"mark": self._workers.pop(pid), "how": _how(status)})


def _how(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"exited with code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"


def _end_with(template: int) -> None:
    """Makes Linux end this process with its template."""
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        pass  # The engine ends it.
    if os.getppid() != template:
        os._exit(1)


def _call(order: Dict[str, Any], number: int) -> socket.socket:
    call = socket.socket(socket.AF_UNIX)
    call.connect(order["address"])
    call.sendall(f"{order['mark']} {os.getpid()} {number}\n".encode("ascii"))
    return call
