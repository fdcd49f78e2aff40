"""Errors on their way to Node-RED: the JSON that src/wire/error-codec.ts reads."""
import json
import os
import traceback
from typing import Any, Dict, Optional

LONGEST_CAUSE_CHAIN = 5
LONGEST_TEXT = 16_384
HERE = os.path.dirname(os.path.abspath(__file__))
CARRIED_APART = {"name", "message", "stack", "code", "stage", "cause"}


class ModeletError(Exception):
    """What callers see. `code` is one of those of src/core/errors.ts; `stage` the stage's name."""

    def __init__(
        self, code: str, message: str, cause: Optional[BaseException] = None, details: Any = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.details = details
        self.stage: Optional[str] = None
        self.__cause__ = cause


def to_modelet_error(cause: BaseException) -> ModeletError:
    """What user code raised becomes `modelet_failed`, or `invalid_input` where it says so; the original is the cause."""
    if isinstance(cause, ModeletError):
        return cause
    refused = _attribute(cause, "code") == "invalid_input"
    code = "invalid_input" if refused else "modelet_failed"
    return ModeletError(code, message_of(cause), cause, _attribute(cause, "details"))


def message_of(error: BaseException) -> str:
    """Some of Python's own errors say nothing without their name: a KeyError is just the key."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # its own __str__
        return name
    return f"{name}: {text}" if isinstance(error, KeyError) else text or name


def encode_error(error: BaseException) -> bytes:
    """Never raises."""
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
        # People look at the stack of the outermost error: it is that of the code at fault.
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
    """The traceback from the user's code on: how this worker came to call it is of no use to anybody."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(HERE):
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
    """What JSON cannot hold is left behind; the error itself must get through."""
    try:
        return len(json.dumps(value, allow_nan=False)) <= LONGEST_TEXT
    except (TypeError, ValueError, RecursionError):
        return False


def _attribute(error: BaseException, name: str) -> Any:
    try:
        return getattr(error, name, None)
    except Exception:  # a property of its own
        return None


def _clip(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}... ({len(text)} characters)"
