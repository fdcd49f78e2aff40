"""
Loads a modelet from the user's file: a function `predict(input, ctx)`, or a class with the methods that a modelet of
JavaScript has. What a method does not ask for it is not given: `predict(self, input)` will do.
"""
import inspect
import os
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import CodeType, ModuleType
from typing import Any, Callable, List, NamedTuple, Optional, Sequence

Call = Callable[..., Any]


class Log:
    """Writes to Node-RED's log."""

    def __init__(self, write: Callable[[str, str], None]) -> None:
        self._write = write

    def debug(self, message: Any) -> None:
        self._write("debug", str(message))

    def info(self, message: Any) -> None:
        self._write("info", str(message))

    def warn(self, message: Any) -> None:
        self._write("warn", str(message))

    warning = warn

    def error(self, message: Any) -> None:
        self._write("error", str(message))


class Context(NamedTuple):
    """What a modelet is told about where it runs: the stage's name, the index of the worker, its cores if it is pinned."""

    stage: str
    worker: int
    cpus: Optional[List[int]]
    log: Log


class LoadedModelet(NamedTuple):
    """`batch`: predict is called once with all inputs."""

    batch: bool
    examples: Sequence[Any]
    input_schema: Any
    output_schema: Any
    setup: Call
    preprocess: Optional[Call]
    predict: Call
    postprocess: Optional[Call]
    teardown: Call


def load(path: str, init: Any, wants_batches: bool, context: Context) -> LoadedModelet:
    """Runs the file and makes its object, without `setup`. Raises whatever keeps it from loading."""
    exported = find_modelet(import_file(path), path)
    batch = wants_batches or getattr(exported, "batch", False) is True
    examples = getattr(exported, "examples", ())
    if not isinstance(examples, (list, tuple)):
        raise TypeError(f"examples in {path} must be a list, found {type(examples).__name__}")
    statics = (batch, examples, getattr(exported, "input_schema", None), getattr(exported, "output_schema", None))
    if not inspect.isclass(exported):
        predict = accepting(exported, 2)
        return LoadedModelet(*statics, nothing, None, lambda value: predict(value, context), None, nothing)
    instance = accepting(exported, 2)(init, context)

    def method(name: str, arguments: int) -> Optional[Call]:
        found = getattr(instance, name, None)
        if found is None:
            return None
        call = accepting(found, arguments + 1)
        return lambda *given: call(*given, context)

    return LoadedModelet(
        *statics,
        method("setup", 0) or nothing,
        method("preprocess", 1),
        method("predict", 1) or nothing,
        method("postprocess", 2),
        method("teardown", 0) or nothing,
    )


def nothing(*_: Any) -> None:
    """What a method does that is not there."""


class Uncached(SourceFileLoader):
    """Python knows its cached bytecode by size and second: what is saved twice in a second could be the former text."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def import_file(path: str) -> ModuleType:
    """Like `python FILE`, what is beside the file can be imported; the module goes by the file's name."""
    sys.path.insert(0, os.path.dirname(path))
    sys.argv[:] = [path]
    name = os.path.splitext(os.path.basename(path))[0]
    # A file called json.py must not take the place of what others import.
    if name in sys.modules:
        name = f"modelet_{name}"
    loader = Uncached(name, path)
    module = module_from_spec(spec_from_loader(name, loader))
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def find_modelet(module: ModuleType, path: str) -> Any:
    """What the file calls `predict`, else its one class that has a method of that name."""
    predict = getattr(module, "predict", None)
    if callable(predict):
        return predict
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__ and callable(getattr(value, "predict", None))
    ]
    # A base of another one is not what is meant.
    meant = [one for one in classes if not any(other is not one and issubclass(other, one) for other in classes)]
    if len(meant) == 1:
        return meant[0]
    if not meant:
        raise TypeError(f"{path} must have a function predict(input, ctx) or a class with a method predict")
    names = ", ".join(one.__name__ for one in meant)
    raise TypeError(f"{path} must have one class with a method predict, found {names}")


def accepting(call: Call, most: int) -> Call:
    """The call, with the arguments at the end left out that it does not take. It is given `most` at most."""
    if inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call):
        raise TypeError(f"{call.__name__} is async; it has to be a plain function, or a generator")
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return call  # Of C code, which does not always say.
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return call
    taken = sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)
    return call if taken >= most else lambda *given: call(*given[:taken])
