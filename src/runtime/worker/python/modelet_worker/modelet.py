"""
Loads a modelet from the user's file: a function `predict(input, ctx)`, or a class with the same methods as a JavaScript
modelet. A method may omit its last parameters: `predict(self, input)` is enough.
"""
import inspect
import os
import re
import sys
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import CodeType, ModuleType
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Sequence

from . import key_states
from .metrics import Metrics
from .pydantic_schemas import schema_of

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
    """
    Tells a modelet where it runs: the stage's name, the worker's index, and the worker's cores, which are None if it is
    not pinned. `metrics` makes metrics of the modelet's own. `progress(done)` tells how far `setup` is: a text, or a
    number from 0 to 1.
    """

    stage: str
    worker: int
    cpus: Optional[List[int]]
    log: Log
    metrics: Metrics
    progress: Callable[[Any], None]

    @property
    def key(self) -> Optional[str]:
        """The key of the item; None if the stage has no keys, and in calls for several items."""
        only = key_states.only()
        return only.key if only else None

    @property
    def state(self) -> Any:
        """What is kept of the key between its items: a dict, empty at first."""
        only = key_states.only()
        return only.state if only else None

    @state.setter
    def state(self, state: Any) -> None:
        only = key_states.only()
        if only is None:
            raise AttributeError("ctx.state needs a stage with keys, and a call for one item")
        only.state = state

    @property
    def keys(self) -> List[str]:
        """The keys of the call's items, in their order."""
        return [held.key for held in key_states.present()]

    @property
    def states(self) -> List[Any]:
        return [held.state for held in key_states.present()]


class LoadedModelet(NamedTuple):
    """
    A callable modelet. `is_async`: some of its code is. `batch`: predict takes a list of inputs. `must_prove`: its examples
    must show that a batch answers as single calls do.
    """

    is_async: bool
    batch: bool
    must_prove: bool
    examples: Sequence[Any]
    input_schema: Any
    output_schema: Any
    setup: Call
    preprocess: Optional[Call]
    predict: Call
    postprocess: Optional[Call]
    teardown: Call
    # Why each list has one input only.
    singly: Optional[str] = None
    # Gets the state of a key that ends.
    on_key_end: Optional[Call] = None

    @property
    def runs_together(self) -> bool:
        return self.batch and self.singly is None


def load(
    exported: Any, path: str, init: Any, wants_batches: bool, concurrency: int, context: Context
) -> LoadedModelet:
    """Creates the modelet of a file without calling `setup`. Raises any error that keeps it from loading."""
    declared = getattr(exported, "batch", False)
    must_prove = isinstance(declared, str) and declared == "proven"
    batch = wants_batches or must_prove or declared is True
    examples = getattr(exported, "examples", ())
    if not isinstance(examples, (list, tuple)):
        raise TypeError(f"examples in {path} must be a list, found {type(examples).__name__}")
    input_schema = schema_of(getattr(exported, "input_schema", None))
    output_schema = schema_of(getattr(exported, "output_schema", None), is_output=True)
    statics = (batch, must_prove, examples, input_schema, output_schema)
    if not inspect.isclass(exported):
        check_concurrency(exported, concurrency)
        predict = accepting(exported, 2)
        return LoadedModelet(is_async(exported), *statics, nothing, None, lambda value: predict(value, context), None, nothing)
    instance = accepting(exported, 2)(init, context)
    steps = not hasattr(instance, "predict")
    if not steps:
        check_concurrency(instance.predict, concurrency)
    elif batch:
        raise TypeError(f'the class in {path} runs step by step: its call must be "one item", not a batch')

    def method(name: str, arguments: int) -> Optional[Call]:
        found = getattr(instance, name, None)
        if found is None:
            return None
        call = accepting(found, arguments + 1)
        return lambda *given: call(*given, context)

    return LoadedModelet(
        steps or any(is_async(getattr(instance, name, None)) for name in METHODS),
        *statics,
        method("setup", 0) or nothing,
        method("preprocess", 1),
        stepping(instance.step, context) if steps else method("predict", 1) or nothing,
        method("postprocess", 2),
        method("teardown", 0) or nothing,
        on_key_end=method("on_key_end", 2),
    )


METHODS = ("setup", "preprocess", "predict", "postprocess", "on_key_end", "teardown")


def is_async(call: Any) -> bool:
    call = inspect.unwrap(call) if callable(call) else call
    return inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)


def check_concurrency(predict: Call, concurrency: int) -> None:
    # In threads, calls would share a model that hardly any library protects against that.
    if concurrency > 1 and not is_async(predict):
        raise TypeError(f"a concurrency of {concurrency} needs async def predict; a plain predict runs one call at a time")


def stepping(step: Call, context: Context) -> Call:
    """Returns a `predict` that runs step by step, together with the other calls."""
    from .step_loop import StepLoop

    call = accepting(step, 2)
    return StepLoop(lambda sequences: call(sequences, context)).predict


def nothing(*_: Any) -> None:
    """Stands in for a method that the modelet does not have."""


# A pickle names a class or function of the script that made it. Python versions word the error in these ways.
MISSING_IN_MAIN = re.compile(
    r"Can't get attribute '([\w.]+)' on <module '__main__'|module '__main__' has no attribute '(\w+)'"
)


@contextmanager
def explained(path: Optional[str]) -> Iterator[None]:
    """
    Adds to the error of a missing module how to install it, and to that of a pickle what the code must define.
    `path`: the modelet's file; None for code that a user has typed into the dialog.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if path is None:
            how = "list its package in the dialog of the stage, on the tab Packages, and install it there"
        elif os.path.exists(os.path.join(os.path.dirname(path), "requirements.txt")):
            how = "if requirements.txt lists it: the dialog of the stage or modelet serve --install installs that"
        else:
            how = "the dialog of the stage says how to install it"
        error.msg = f"{error.msg} ({how})"
        raise
    except AttributeError as error:
        missing = MISSING_IN_MAIN.search(str(error))
        if missing:
            name = missing[1] or missing[2]
            file = "On Start" if path is None else os.path.basename(path)
            error.args = (f"a pickle needs {name} of the script that made it (__main__): define or import {name} in {file}",)
            error._is_lasting = True
        raise


def is_lasting(error: BaseException) -> bool:
    """Whether the error of `setup` would come again, as that of a pickle whose class is missing."""
    return getattr(error, "_is_lasting", False)


class Uncached(SourceFileLoader):
    """
    Loads a file without cached bytecode. Python validates its cache by file size and second, so a file that was saved
    twice within a second could load the old code.
    """

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def import_file(path: str) -> ModuleType:
    """Imports the file under its own name. As with `python FILE`, it can import modules from its own folder."""
    sys.path.insert(0, os.path.dirname(path))
    sys.argv[:] = [path]
    name = os.path.splitext(os.path.basename(path))[0]
    # A file with the name of a module, such as json, must not replace that module for others.
    if name in sys.modules:
        name = f"modelet_{name}"
    loader = Uncached(name, path)
    module = module_from_spec(spec_from_loader(name, loader))
    sys.modules[name] = module
    find_in_main(module)
    loader.exec_module(module)
    return module


def find_in_main(module: ModuleType) -> None:
    """Pickles of a script look for its classes and functions in `__main__`: while the module is imported, or later."""
    sys.modules["__main__"].__getattr__ = lambda missing: _of_module(module, missing)


def _of_module(module: ModuleType, name: str) -> Any:
    try:
        return vars(module)[name]
    except KeyError:
        raise AttributeError(f"module '__main__' has no attribute '{name}'") from None


def find_modelet(module: ModuleType, path: str) -> Any:
    """Returns the file's function `predict`, else its only class with a method of that name, else with `step`."""
    predict = getattr(module, "predict", None)
    if callable(predict):
        return predict
    own = [value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == module.__name__]
    classes = [one for one in own if callable(getattr(one, "predict", None))]
    classes = classes or [one for one in own if callable(getattr(one, "step", None))]
    # Ignore base classes of other candidates.
    meant = [one for one in classes if not any(other is not one and issubclass(other, one) for other in classes)]
    if len(meant) == 1:
        return meant[0]
    if not meant:
        raise TypeError(f"{path} must have a function predict(input, ctx), or a class with a method predict or step")
    names = ", ".join(one.__name__ for one in meant)
    raise TypeError(f"{path} must have one class with a method predict, found {names}")


def accepting(call: Call, most: int) -> Call:
    """Wraps a call so that it drops trailing arguments that the callee does not take. `most`: most arguments passed."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return call  # C code does not always have a signature.
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return call
    taken = sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)
    return call if taken >= most else lambda *given: call(*given[:taken])
