"""
Prints, as JSON, the version of this interpreter, and which modules that a file imports are missing, or with `--requirements`
which packages. Runs nothing of the file.
"""

import ast
import importlib.metadata
import importlib.util
import json
import os
import re
import sys


def imported(node):
    if isinstance(node, ast.Try):
        # A file that tries an import can do without it.
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        yield node.module
    for child in ast.iter_child_nodes(node):
        yield from imported(child)


def is_missing(name):
    try:
        return importlib.util.find_spec(name) is None
    except (ImportError, ValueError):
        return name not in sys.modules


def missing_of(path):
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return []
    names = {name.split(".")[0] for name in imported(tree)}
    return sorted(name for name in names if is_missing(name))


def is_installed(text):
    """Whether the package is there, in a version that the requirement allows as far as pip is there to tell."""
    try:
        version = importlib.metadata.version(re.match(r"[\w.-]+", text).group())
    except importlib.metadata.PackageNotFoundError:
        return False
    try:
        from pip._vendor.packaging.requirements import Requirement

        return Requirement(text).specifier.contains(version, prereleases=True)
    except Exception:
        return True


if __name__ == "__main__":
    if sys.argv[1:2] == ["--requirements"]:
        missing = [text for text in sys.argv[2:] if not is_installed(text)]
    else:
        missing = missing_of(sys.argv[1]) if len(sys.argv) > 1 else []
    print(json.dumps({"version": "%d.%d.%d" % sys.version_info[:3], "missing": missing}))
