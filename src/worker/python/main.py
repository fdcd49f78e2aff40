"""Entry of a worker process whose modelet is Python: what main.ts is for JavaScript. Started by its path.

Only this file must be readable to any Python there is, so that one that is too old can say so.
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
    """The path is the modelet's own afterwards: nothing of ours is found under a short name."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [here] + [folder for folder in sys.path if folder != here]
    try:
        from modelet_worker import program
    finally:
        sys.path.remove(here)
    return program


# Processes that the modelet starts may import this file again.
if __name__ == "__main__":
    import_program().main()
