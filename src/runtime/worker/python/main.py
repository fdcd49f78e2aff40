"""Entry of a worker process for Python modelets, as main.ts is for JavaScript. The engine starts it by path.

Every Python version must be able to parse this file, so that an old one can report that it is too old.
"""
import os
import sys

OLDEST = (3, 9)

if sys.version_info[:2] < OLDEST:
    sys.stderr.write(
        "modelets need Python %d.%d or newer; %s is Python %d.%d\n"
        % (OLDEST + (sys.executable,) + tuple(sys.version_info[:2]))
    )
    sys.exit(1)


def import_program():
    """Imports the program and restores sys.path, so that the modelet cannot import our modules by a short name."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [here] + [folder for folder in sys.path if folder != here]
    try:
        from modelet_worker import program
    finally:
        sys.path.remove(here)
    return program


# Processes that the modelet starts may import this file again. They must not run the program.
if __name__ == "__main__":
    import_program().main()
