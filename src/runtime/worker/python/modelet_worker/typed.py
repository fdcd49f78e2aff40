"""
Makes a modelet from the code in a stage's tabs On Start, Predict and On Stop. On Start is the top of a module: the other
tabs see its imports, functions and variables. Predict and On Stop are the bodies of functions. Every tab may await, and
On Start may return. src/runtime/worker/sources/inline.ts does the same for JavaScript.
"""
import ast
import inspect
import linecache
import os
import sys
from types import CodeType, FunctionType, ModuleType
from typing import Any, Callable, Dict, List, Sequence

from .modelet import Context, LoadedModelet, find_in_main, is_async
from .private_folder import private_folder

# By this name a process that the modelet starts imports the code, and pickles name its classes.
MODULE = "stage_code"
RETURN = "__return_of_on_start__"
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Pass)
ARGUMENTS = ("state", "init", "ctx")


class _Returned(BaseException):
    """Leaves On Start with its result. Not an Exception, so that the code does not catch it."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def load_typed(definition: Dict[str, Any], context: Context) -> LoadedModelet:
    """Compiles all tabs, and runs none. Raises SyntaxError with the tab and line, or TypeError."""
    source = definition["source"]
    start = _compile_start(source["setup"], f"{context.stage}: On Start")
    predict = _compile_body(source["code"], f"{context.stage}: Predict", "predict", ("input", *ARGUMENTS))
    stop = _compile_body(source["teardown"], f"{context.stage}: On Stop", "on_stop", ARGUMENTS)
    module = _importable(source["setup"], definition["requireFrom"])
    names = vars(module)
    names.update({"init": definition["init"], "ctx": context, RETURN: _Returned})
    run, tear_down = FunctionType(predict, names), FunctionType(stop, names)
    concurrency = definition["concurrency"]
    if concurrency > 1 and not is_async(run):
        raise TypeError(f"a concurrency of {concurrency} needs await in Predict; other code runs one call at a time")

    starts_async = bool(start.co_flags & inspect.CO_COROUTINE)

    async def setup() -> None:
        try:
            returned = eval(start, names)
            if starts_async:
                returned = await returned
        except _Returned as raised:
            returned = raised.value
        except ImportError as error:
            # The next worker would miss the same module.
            error._is_lasting = True
            raise
        # Functions of On Start see it, too.
        names["state"] = names.get("state") if returned is None else returned

    return LoadedModelet(
        starts_async or is_async(run) or is_async(tear_down),
        definition["predict"] == "batch",
        must_prove=False,
        examples=(),
        input_schema=None,
        output_schema=None,
        setup=setup,
        preprocess=None,
        predict=lambda value: run(value, names["state"], names["init"], context),
        postprocess=None,
        teardown=lambda: tear_down(names["state"], names["init"], context),
    )


def _compile_start(text: str, filename: str) -> CodeType:
    return _compile(text, filename, lambda tree: ast.fix_missing_locations(_Returns().visit(tree)))


def _compile_body(text: str, filename: str, name: str, parameters: Sequence[str]) -> CodeType:
    def wrap(tree: ast.Module) -> ast.Module:
        kind = "async def" if any(_awaits(statement) for statement in tree.body) else "def"
        outer = ast.parse(f"{kind} {name}({', '.join(parameters)}): pass")
        outer.body[0].body = tree.body or outer.body[0].body
        return outer

    code = _compile(text, filename, wrap)
    body = next(constant for constant in code.co_consts if isinstance(constant, CodeType))
    if name != "predict" and body.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR):
        raise SyntaxError(f"{filename}: only Predict may yield")
    return body


def _compile(text: str, filename: str, change: Callable[[ast.Module], ast.Module]) -> CodeType:
    # Tracebacks and inspect.getsource look for the lines there.
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    try:
        tree = change(ast.parse(text, filename))
        return compile(tree, filename, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
    except SyntaxError as error:
        raise type(error)(f"{filename}:{error.lineno or 1}: {error.msg}") from None
    except ValueError as error:
        raise SyntaxError(f"{filename}: {error}") from None


class _Returns(ast.NodeTransformer):
    """A module cannot return: On Start raises its result."""

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, SCOPES):
            return node
        if isinstance(node, ast.Return):
            value = node.value or ast.Constant(None)
            call = ast.Call(ast.Name(RETURN, ast.Load()), [value], [])
            return ast.copy_location(ast.Raise(call, None), node)
        return self.generic_visit(node)


def _awaits(node: ast.AST) -> bool:
    """Whether the code of a tab awaits itself, not in a function that it defines."""
    if isinstance(node, SCOPES):
        return False
    if isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)) or getattr(node, "is_async", 0):
        return True
    return any(_awaits(child) for child in ast.iter_child_nodes(node))


def _importable(text: str, folder: str) -> ModuleType:
    """
    Returns the module of the code, which has run nothing yet. Processes that the modelet starts can import it, from a
    private file with the definitions of On Start. Modules of `folder` can be imported as well.
    """
    path = os.path.join(private_folder(), f"{MODULE}.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(_definitions(text))
    sys.path.insert(0, os.path.dirname(path))
    sys.path.append(folder)
    sys.argv[:] = [path]
    module = ModuleType(MODULE)
    module.__file__ = path
    sys.modules[MODULE] = module
    find_in_main(module)
    return module


def _definitions(text: str) -> str:
    """Returns On Start without the lines that do something, such as load a model. The others keep their numbers."""
    lines = text.split("\n")
    for statement in ast.parse(text).body:
        if not _is_definition(statement):
            for number in range(statement.lineno - 1, statement.end_lineno):
                lines[number] = ""
    return "\n".join(lines)


def _is_definition(statement: ast.stmt) -> bool:
    """Whether a process of the modelet needs the statement, too: imports, functions, classes and constants."""
    if isinstance(statement, DEFINITIONS):
        return True
    if isinstance(statement, (ast.If, ast.Try)):
        parts: List[ast.stmt] = [*statement.body, *statement.orelse]
        for handler in getattr(statement, "handlers", []):
            parts += handler.body
        return all(_is_definition(part) for part in [*parts, *getattr(statement, "finalbody", [])])
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return all(isinstance(target, ast.Name) for target in targets) and _is_constant(targets, statement.value)
    return False


def _is_constant(targets: Sequence[ast.Name], value: Any) -> bool:
    """A literal, or what has a name in capitals and needs nothing of the worker."""
    if value is None:
        return True
    try:
        ast.literal_eval(value)
        return True
    except (ValueError, TypeError, MemoryError, RecursionError):
        used = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
        return all(target.id.isupper() for target in targets) and used.isdisjoint(("init", "ctx"))
