"""
Calls user code and turns its exceptions into values. src/runtime/worker/batch/replies.ts does the same for JavaScript.

User code may be async. So all that calls it is, too; where nothing is async, `finish` runs it without an event loop.
"""
import sys
from typing import Any, Callable, Coroutine, NamedTuple

from . import forks

# Types of usual results. To ask a type for a method that it lacks takes Python longer than all else that is asked of a result.
PLAIN = frozenset({dict, list, tuple, str, int, float, bool, bytes, type(None)})


class Failed(NamedTuple):
    """The failure of an item, which skips all later steps."""

    error: BaseException


class Done(NamedTuple):
    """The end of a result in parts. It skips postprocess and the checks, and is sent unchanged."""

    value: Any


def attempt_now(call: Callable[..., Any], *arguments: Any) -> Any:
    """Calls code that is never async."""
    try:
        value = call(*arguments)
    except Exception as raised:
        forks.leave(raised)
        return Failed(raised)
    if forks.is_child:
        forks.leave()
    return failed_or(value)


async def attempt(call: Callable[..., Any], *arguments: Any) -> Any:
    """Calls user code, and awaits what it returns if it is async. Treats a returned exception like a raised one, and a cancelled call like a failed one."""
    try:
        value = call(*arguments)
        if type(value) not in PLAIN and hasattr(type(value), "__await__"):
            _check_loop()
            value = await value
    except Exception as raised:
        forks.leave(raised)
        return Failed(raised)
    except BaseException as raised:
        if not _is_cancellation(raised):
            raise
        return Failed(raised)
    if forks.is_child:
        forks.leave()
    return failed_or(value)


def failed_or(value: Any) -> Any:
    return Failed(value) if isinstance(value, Exception) else value


def finish(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine in which nothing waits, and returns its result."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise RuntimeError("code that is not async waits for an event loop; declare it with async def")


def _check_loop() -> None:
    try:
        sys.modules["asyncio"].get_running_loop()
    except (KeyError, RuntimeError):
        raise TypeError("the modelet returned an awaitable, but none of its methods is an async def") from None


def _is_cancellation(raised: BaseException) -> bool:
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or not isinstance(raised, asyncio.CancelledError):
        return False
    from .event_loop import uncancel

    uncancel()
    return True
