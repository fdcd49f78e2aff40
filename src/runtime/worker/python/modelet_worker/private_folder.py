"""A folder of this process alone, which ends with it. A worker that was killed leaves its folder to the next one."""
import atexit
import fcntl
import os
import shutil
import tempfile

PREFIX = "modelet-python-"


def private_folder() -> str:
    """Makes the folder, readable by this user only, and removes those of processes that are gone."""
    _sweep(tempfile.gettempdir())
    while True:
        folder = tempfile.mkdtemp(prefix=PREFIX)
        # Another process may sweep it before it is locked.
        try:
            lock = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue
        # Held until the process ends, and by the children that it has forked.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.isdir(folder):
            atexit.register(shutil.rmtree, folder, True)
            return folder
        os.close(lock)


def _sweep(root: str) -> None:
    for entry in os.scandir(root):
        if not entry.name.startswith(PREFIX) or not entry.is_dir(follow_symlinks=False):
            continue
        try:
            lock = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            continue  # It belongs to another user, or is gone.
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(entry.path, True)
        except OSError:
            pass  # Its process lives.
        finally:
            os.close(lock)
