"""
Loads the file of a modelet, and calls its `preload` if the stage wants that. It then checks that the process can be
forked: a worker has only the thread that forks it, and no GPU.
"""
import inspect
import os
import sys
import threading
import time
from types import ModuleType
from typing import TYPE_CHECKING, Any, Dict, Set, Union

from . import forks
from .errors import ModeletError
from .modelet import Call, accepting, find_modelet, import_file, is_async, nothing

if TYPE_CHECKING:
    from .program import Program
    from .template import Template

OMP_PAUSE_HARD = 2
# How long threads may take to end after `preload`.
ENDING_S = 2.0


def exported_by(definition: Dict[str, Any], program: Union["Program", "Template"]) -> Any:
    """Returns the function or class of the modelet's file. It has preloaded, if its stage wants that."""
    path = definition["source"]["path"]
    module = import_file(path)
    exported = find_modelet(module, path)
    if definition["preload"]:
        preload = _preload_of(exported, module, path)
        if preload is nothing:
            print(f"{path} has no preload: its workers share only what it loads as it is imported")
        # As in `setup`, an error may be temporary.
        program.is_loading = False
        preload(definition["init"])
        program.is_loading = True
        # A trial forks no workers, but must not pass what a template refuses.
        if sys.platform == "linux":
            _check_forkable()
    return exported


def _preload_of(exported: Any, module: ModuleType, path: str) -> Call:
    """Returns the class method or function `preload` of a file, which takes `init`."""
    owner = exported if hasattr(exported, "preload") else module
    found = inspect.getattr_static(owner, "preload", None)
    if found is None:
        return nothing
    if inspect.isclass(owner) and not isinstance(found, (classmethod, staticmethod)):
        raise TypeError(f"preload in {path} must be a classmethod: it runs before there is a modelet")
    call = getattr(owner, "preload")
    if is_async(call):
        raise TypeError(f"preload in {path} must be a plain function: it runs before there is an event loop")
    if not _takes_init(call):
        form = "preload(cls, init)" if isinstance(found, classmethod) else "preload(init)"
        raise TypeError(f"preload in {path} must have the form {form}")
    return accepting(call, 1)


def _takes_init(call: Any) -> bool:
    """Whether it can be called with `init`, or without it."""
    if not callable(call):
        return False
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):
        return not inspect.ismethod(call)  # C code may have no signature. A method without one lacks `cls`.
    return any(_binds(signature, *given) for given in ((None,), ()))


def _binds(signature: inspect.Signature, *given: None) -> bool:
    try:
        signature.bind(*given)
    except TypeError:
        return False
    return True


def _check_forkable() -> None:
    """
    Ends the threads that libraries keep for later, as they begin anew in a worker. Raises an error for what a worker would
    find broken: only the thread that forks lives on in it, and what it has of a GPU is of no use.
    """
    torch = sys.modules.get("torch")
    if torch and torch.cuda.is_initialized():
        raise ModeletError(
            "config_invalid",
            "preload has used a GPU, which forked workers cannot: load the weights there to the CPU, and move them in setup",
        )
    _end_kept_threads()
    until = time.monotonic() + ENDING_S
    while _other_threads() and time.monotonic() < until:
        time.sleep(0.01)
    others = _other_threads()
    if others:
        raise ModeletError(
            "config_invalid",
            f"threads run after preload, and would be missing in forked workers ({', '.join(sorted(others))}): "
            "start them in setup, or end them in preload",
        )


def _end_kept_threads() -> None:
    import ctypes

    # Progress bars have a thread that makes sure that they move.
    monitor = getattr(getattr(sys.modules.get("tqdm"), "tqdm", None), "monitor", None)
    if monitor:
        monitor.exit()
    for library in _openmp_libraries():
        try:
            ctypes.CDLL(library).omp_pause_resource_all(OMP_PAUSE_HARD)
        except (OSError, AttributeError):
            pass  # An old one. If it has threads, they are found.
    # OpenBLAS and others end their threads whenever the process forks.
    pid = forks.fork_worker()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _openmp_libraries() -> Set[str]:
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        paths = {line.rstrip("\n").partition("/")[2] for line in file}
    return {f"/{path}" for path in paths if "omp" in os.path.basename(path)}


def _other_threads() -> Set[str]:
    """Returns the names of all threads but this one, those of native code too."""
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    return {
        names.get(int(number)) or _native_name(number)
        for number in os.listdir("/proc/self/task")
        if int(number) != threading.get_native_id()
    }


def _native_name(number: str) -> str:
    try:
        with open(f"/proc/self/task/{number}/comm", encoding="utf-8", errors="replace") as file:
            return f"{file.read().strip()}, native"
    except OSError:
        return "native"
