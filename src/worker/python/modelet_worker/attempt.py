"""Calls user code and turns its exceptions into values. src/worker/batch/replies.ts does the same for JavaScript."""
from typing import Any, Callable, NamedTuple


class Failed(NamedTuple):
    """The failure of an item, which skips all later steps."""

    error: BaseException


class Done(NamedTuple):
    """The end of a result in parts. It skips postprocess and the checks, and is sent unchanged."""

    value: Any


def attempt(call: Callable[..., Any], *arguments: Any) -> Any:
    """Calls user code. Treats a returned exception like a raised one."""
    try:
        value = call(*arguments)
    except Exception as raised:
        return Failed(raised)
    return failed_or(value)


def failed_or(value: Any) -> Any:
    return Failed(value) if isinstance(value, Exception) else value
