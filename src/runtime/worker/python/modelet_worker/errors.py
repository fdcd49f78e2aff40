"""Encodes errors for Node-RED as the JSON that src/wire/codec/error-codec.ts reads."""
import json
import os
import traceback
from typing import Any, Dict, Optional

LONGEST_CAUSE_CHAIN = 5
LONGEST_TEXT = 16_384
HERE = os.path.dirname(os.path.abspath(__file__))
# Of the worker itself, and of Python's import of the user's file.
NOT_OF_THE_USER = (HERE, "<frozen importlib.")
CARRIED_APART = {"name", "message", "stack", "code", "stage", "cause"}


class ModeletError(Exception):
    """The error that callers see. `code`: one of the codes in src/core/errors.ts. `stage`: the stage's name."""

    def __init__(
        self, code: str, message: str, cause: Optional[BaseException] = None, details: Any = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.details = details
        self.stage: Optional[str] = None
        self.__cause__ = cause


def to_modelet_error(cause: BaseException) -> ModeletError:
    """
    Converts an exception from user code to `modelet_failed`, or to `invalid_input` if it has that code. The original
    becomes the cause.
    """
    if isinstance(cause, ModeletError):
        return cause
    refused = _attribute(cause, "code") == "invalid_input"
    code = "invalid_input" if refused else "modelet_failed"
    return ModeletError(code, message_of(cause), cause, _attribute(cause, "details"))


def message_of(error: BaseException) -> str:
    """Returns the message. Adds the name of an error that is unclear without it: a KeyError's text is just the key."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # The class has a __str__ that raises.
        return name
    return f"{name}: {text}" if isinstance(error, KeyError) else text or name


def encode_error(error: BaseException) -> bytes:
    """Encodes an exception. Never raises."""
    try:
        return _dump(_to_wire(error, 0))
    except Exception:
        return _dump({"name": "Error", "message": "an error that cannot be read"})


def _dump(wire: Dict[str, Any]) -> bytes:
    return json.dumps(wire, allow_nan=False).encode("ascii")


def _to_wire(error: BaseException, depth: int) -> Dict[str, Any]:
    wire: Dict[str, Any] = {"name": type(error).__name__, "message": _clip(message_of(error))}
    cause = error.__cause__
    if isinstance(error, ModeletError):
        wire["code"] = error.code
        if error.stage is not None:
            wire["stage"] = error.stage
        if error.details is not None and _fits(error.details):
            wire["fields"] = {"details": error.details}
        # People look at the outermost error's stack, so it must be the stack of the code at fault.
        wire["stack"] = stack_of(error if cause is None else cause)
    else:
        wire["stack"] = stack_of(error)
        code = _attribute(error, "code")
        if isinstance(code, (str, int)) and not isinstance(code, bool):
            wire["code"] = code
        fields = _plain_fields(error)
        if fields:
            wire["fields"] = fields
        if cause is None and not error.__suppress_context__:
            cause = error.__context__
    if cause is not None and depth < LONGEST_CAUSE_CHAIN:
        wire["cause"] = _to_wire(cause, depth + 1)
    return wire


def stack_of(error: BaseException) -> str:
    """Returns the traceback from the user's code on. The frames before it are of no use."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(NOT_OF_THE_USER):
        frames = frames.tb_next
    lines = traceback.format_exception(type(error), error, frames, chain=False)
    return _clip("".join(lines).rstrip())


def _plain_fields(error: BaseException) -> Dict[str, Any]:
    fields = {}
    for name, value in getattr(error, "__dict__", {}).items():
        if name.startswith("_") or name in CARRIED_APART:
            continue
        if _fits(value):
            fields[name] = value
    return fields


def _fits(value: Any) -> bool:
    """Whether JSON can hold the value within the limit. Other values are dropped, so that the error always arrives."""
    try:
        return len(json.dumps(value, allow_nan=False)) <= LONGEST_TEXT
    except (TypeError, ValueError, RecursionError):
        return False


def _attribute(error: BaseException, name: str) -> Any:
    try:
        return getattr(error, name, None)
    except Exception:  # The class has a property that raises.
        return None


def _clip(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}... ({len(text)} characters)"
