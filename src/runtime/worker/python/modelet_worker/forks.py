"""
Processes that the modelet forks, by multiprocessing or os.fork. A child begins as a copy of the worker, but must not act
as the worker: it has no channel, signals end it as they end any process, and it ends where the modelet's code ends.
Workers that a template forks are no such children.
"""
import os
import signal
import sys
import threading
import traceback
from typing import Any, Callable, Optional

SIGNALS = (signal.SIGINT, signal.SIGTERM)

# Whether this process is a child of the worker.
is_child = False
_masks = threading.local()
# None until this process, or the template that it comes from, was prepared.
_close_channel: Optional[Callable[[], None]] = None
_forks_worker = False


def prepare(close_channel: Callable[[], None]) -> None:
    """Makes the worker ignore signals, and lets its children begin without that and without the channel."""
    global _close_channel
    is_first = _close_channel is None
    _close_channel = close_channel
    # Ctrl-C and service managers signal the whole group: a worker ends by frame, by loss of its channel, or by SIGKILL.
    # Not SIG_IGN, because programs that the modelet starts would inherit it.
    for number in SIGNALS:
        signal.signal(number, _ignore)
    if is_first:
        os.register_at_fork(before=_block, after_in_parent=_unblock, after_in_child=_begin)


def fork_worker() -> int:
    """Forks a process that is no child in the sense of this file. Returns its id, and 0 in that process."""
    global _forks_worker
    _forks_worker = True
    try:
        return os.fork()
    finally:
        _forks_worker = False


def leave(error: Optional[BaseException] = None) -> None:
    """Ends a child, as Python ends a program. Does nothing in the worker."""
    if not is_child:
        return
    code = 0
    if isinstance(error, SystemExit):
        code = exit_code_of(error)
    elif error is not None:
        traceback.print_exception(type(error), error, error.__traceback__)
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        # The exit functions belong to the worker: that of multiprocessing would end the child's siblings.
        os._exit(code & 0xFF)


def exit_code_of(error: SystemExit) -> int:
    """Returns the code with which Python ends. As Python does, prints what is no code."""
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    print(error.code, file=sys.stderr)
    return 1


def end_executors() -> None:
    """
    Tells the processes of executors that the modelet left running to end. Python does so before its exit functions;
    without it, that of multiprocessing would wait for them for ever.
    """
    module = sys.modules.get("concurrent.futures.process")
    getattr(module, "_python_exit", int)()


def _ignore(_number: int, _frame: Any) -> None:
    pass


def _block() -> None:
    # A signal that came between the fork and `_begin` would be lost, and with it the end that `terminate` asks for.
    _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _masks.before)


def _begin() -> None:
    global is_child
    if _forks_worker:
        _unblock()
        return
    is_child = True
    if _close_channel:
        _close_channel()
    defaults = (signal.default_int_handler, signal.SIG_DFL)
    for number, default in zip(SIGNALS, defaults):
        if signal.getsignal(number) is _ignore:
            signal.signal(number, default)
    _unblock()
