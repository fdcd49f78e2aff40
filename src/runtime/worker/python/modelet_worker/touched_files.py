"""
Records which files of its user the worker reads, or looks for in vain, while it loads its modelet: the engine watches
them. Meanwhile it stands in front of `open`. touched-files.ts does the same for JavaScript.
"""
import builtins
import io
import os
import sys
from typing import Any, Dict, List, Optional, Set, Tuple

# More files are not watched.
MOST = 100
OWN_CODE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class TouchedFiles:
    def __init__(self) -> None:
        # Stamps by path, of the files as they were when they were first touched.
        self._stamps: Dict[str, str] = {}
        # Files that the modelet writes itself must not make it start again.
        self._written: Set[str] = set()
        self._open = io.open
        self._is_open = False

    def begin(self) -> None:
        """Records until `end` is called."""
        original = self._open

        def recording(file: Any, mode: Any = "r", *more: Any, **named: Any) -> Any:
            self._opened(file, mode)
            return original(file, mode, *more, **named)

        self._is_open = True
        builtins.open = io.open = recording

    def end(self, error: Optional[BaseException] = None) -> None:
        if not self._is_open:
            return
        self._is_open = False
        builtins.open = io.open = self._open
        for module in list(sys.modules.values()):
            self._read(getattr(module, "__file__", None))
        while error is not None:
            self._missed(error)
            error = error.__cause__ or error.__context__

    def all(self) -> List[Tuple[str, str]]:
        return [(path, stamp) for path, stamp in self._stamps.items() if path not in self._written]

    def _opened(self, file: Any, mode: Any) -> None:
        path = _path_of(file)
        if path is not None and isinstance(mode, str) and any(sign in mode for sign in "wax+"):
            self._written.add(path)
        else:
            self._read(path)

    def _missed(self, error: BaseException) -> None:
        """Adds the file for want of which the code did not load."""
        if isinstance(error, FileNotFoundError):
            self._read(error.filename)
        elif isinstance(error, ModuleNotFoundError) and error.name:
            place = error.name.replace(".", os.sep)
            for folder in sys.path:
                for name in (f"{place}.py", os.path.join(place, "__init__.py")):
                    self._read(os.path.join(folder, name), is_missing=True)

    def _read(self, file: Any, is_missing: bool = False) -> None:
        path = _path_of(file)
        if path is None or path in self._stamps or len(self._stamps) >= MOST:
            return
        if not is_missing and _is_installed(path):
            return
        self._stamps[path] = stamp_of(path)


def stamp_of(path: str) -> str:
    """Differs when the file has another content; blank for a file that is missing or empty."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ""
    return f"{status.st_size},{status.st_mtime_ns}" if status.st_size > 0 else ""


def _path_of(file: Any) -> Optional[str]:
    """Returns None for what is no path, such as a descriptor."""
    try:
        return None if isinstance(file, int) else os.path.abspath(os.fsdecode(file))
    except (TypeError, ValueError):
        return None


def _is_installed(path: str) -> bool:
    folders = (os.path.dirname(os.__file__), OWN_CODE, "/proc", "/sys", "/dev")
    if any(path.startswith(os.path.join(folder, "")) for folder in folders):
        return True
    return any(f"{os.sep}{name}{os.sep}" in path for name in ("site-packages", "dist-packages"))
