"""What comes of calling user code. src/worker/attempt.ts does the same for JavaScript."""
from typing import Any, Callable, NamedTuple


class Failed(NamedTuple):
    """An item that goes no further."""

    error: BaseException


class Done(NamedTuple):
    """The end of a result in parts: it has been through all that there is, and is sent as it is."""

    value: Any


def attempt(call: Callable[..., Any], *arguments: Any) -> Any:
    """Calls user code. An exception that is returned is one all the same."""
    try:
        value = call(*arguments)
    except Exception as raised:
        return Failed(raised)
    return failed_or(value)


def failed_or(value: Any) -> Any:
    return Failed(value) if isinstance(value, Exception) else value
