"""
The states of the keys that a worker serves, in a stage with keys. A state is made empty for the first item of a key, or
from the snapshot that the engine has. It ends when the key has been idle, when an item says so, when the engine gives the
key anew, and with the worker. It dies with its process; if the stage keeps snapshots, its replies bring them.
src/runtime/worker/key-states.ts does the same for JavaScript.
"""
import base64
import sys
import time
from contextvars import ContextVar
from typing import Any, Callable, Coroutine, Dict, Optional, Sequence, Tuple

from .codec import NONE, decode_payload, encode_payload
from .errors import ModeletError, stack_of
from .frames import Item

# Beyond, the key without items for longest ends: clients may make up keys.
MOST_KEYS = 100_000
BYTES_PER_KB = 1024
# Most bytes of the snapshots in one reply.
SNAPSHOTS_ROOM = 256 * 1024 * 1024
# The snapshot of a key without a state.
NO_STATE = bytes([NONE])


class HeldKey:
    """
    A key and its state, as its items see them. `uses`: number of batches with an item of the key. `is_touched`: whether
    code has asked for the state since it was checked.
    """

    __slots__ = ("key", "tenure", "_state", "used_at", "uses", "is_touched")

    def __init__(self, key: str, tenure: int, state: Any = None) -> None:
        self.key = key
        self.tenure = tenure
        self._state: Any = {} if state is None else state
        self.used_at = 0.0
        self.uses = 0
        self.is_touched = False

    @property
    def state(self) -> Any:
        self.is_touched = True
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        if not isinstance(state, dict):
            raise TypeError("ctx.state must be a dict")
        self.is_touched = True
        self._state = state


# The keys of the items for which code of the modelet runs; None: the stage has no keys.
_present: "ContextVar[Optional[Sequence[HeldKey]]]" = ContextVar("keys", default=None)


def present() -> Sequence[HeldKey]:
    """Returns the keys of the items of the present call; empty if the stage has none."""
    return _present.get() or ()


def only() -> Optional[HeldKey]:
    """Returns the key of the present call; None if the stage has none, and in calls for several items."""
    keys = present()
    return keys[0] if len(keys) == 1 else None


class KeyStates:
    def __init__(self, definition: Dict[str, Any], on_end: Callable[[str, Any], Coroutine[Any, Any, Any]]) -> None:
        """`on_end` gives the modelet a state for the last time, and never raises."""
        self._idle_s = definition["keyIdleMs"] / 1000
        self._most_bytes = definition["stateKb"] * BYTES_PER_KB
        self.keeps_snapshots = definition["keySnapshotMb"] > 0
        self._on_end = on_end
        # The key that was used last at the end.
        self._held: Dict[str, HeldKey] = {}

    async def begin(self, items: Sequence[Item]) -> Dict[float, HeldKey]:
        """Returns the keys of the items of a batch, by request. Call `end` when the batch has run."""
        keys = {}
        for item in items:
            keys[item.id] = held = await self._open(item)
            # At once: while the next key waits for the end of an earlier state, other batches end the idle keys.
            held.uses += 1
        return keys

    def enter(self, keys: Sequence[HeldKey]) -> None:
        """Call before code of the modelet runs for items with these keys."""
        _present.set(keys)

    def end(self, keys: Dict[float, HeldKey]) -> None:
        for held in keys.values():
            held.uses -= 1
            held.used_at = time.monotonic()

    async def left_by(self, item: Item, held: HeldKey, room: int) -> Tuple[Optional[ModeletError], bytes]:
        """Returns why the state that an item has left cannot be kept, and a snapshot of it of at most `room` bytes."""
        if held.key == "":
            return None, b""
        fault, snapshot = self._checked(held, room)
        if not item.ends or self._held.get(held.key) is not held:
            return fault, snapshot
        await self._end(held)
        return fault, NO_STATE

    def _checked(self, held: HeldKey, room: int) -> Tuple[Optional[ModeletError], bytes]:
        if not held.is_touched:
            return None, b""
        try:
            payload = encode_payload(held.state, min(self._most_bytes, room) if self.keeps_snapshots else self._most_bytes)
            return None, b"".join([bytes([payload.codec]), *payload.parts]) if self.keeps_snapshots else b""
        except Exception as raised:
            if self._held.get(held.key) is held:
                del self._held[held.key]
            key = held.key if len(held.key) <= 200 else f"{held.key[:200]}..."
            of = f"ctx.state of the key {key} cannot be kept, and is dropped: {raised}"
            return ModeletError("modelet_failed", of), NO_STATE
        finally:
            held.is_touched = False

    async def end_idle(self) -> None:
        for held in list(self._held.values()):
            # Another batch may have ended it during the end of the one before.
            if held.uses > 0 or self._held.get(held.key) is not held:
                continue
            if not self._is_idle(held) and len(self._held) <= MOST_KEYS:
                break
            await self._end(held)

    def wait(self) -> Optional[float]:
        """Returns in how many seconds the next key may be idle; None without keys."""
        oldest = next(iter(self._held.values()), None)
        if oldest is None:
            return None
        since = time.monotonic() if oldest.uses > 0 else oldest.used_at
        return max(0.0, since + self._idle_s - time.monotonic())

    async def close(self) -> None:
        for held in list(self._held.values()):
            await self._end(held)

    async def _open(self, item: Item) -> HeldKey:
        if item.tenure == 0 or item.key == "":
            return HeldKey("", 0)
        held = self._held.pop(item.key, None)
        if held is not None and (held.tenure != item.tenure or item.begins or item.state or self._is_idle(held)):
            await self._end(held)
            held = None
        self._held[item.key] = held = held or self._begun(item)
        return held

    def _begun(self, item: Item) -> HeldKey:
        try:
            if item.state and not item.begins:
                snapshot = bytearray(base64.b64decode(item.state))
                return HeldKey(item.key, item.tenure, decode_payload(snapshot[0], memoryview(snapshot[1:])))
        except Exception as raised:
            print(stack_of(raised), file=sys.stderr)
        held = HeldKey(item.key, item.tenure)
        # The engine may have a snapshot of an earlier state.
        held.is_touched = self.keeps_snapshots
        return held

    def _is_idle(self, held: HeldKey) -> bool:
        return held.uses == 0 and time.monotonic() - held.used_at >= self._idle_s

    async def _end(self, held: HeldKey) -> None:
        if self._held.get(held.key) is held:
            del self._held[held.key]
        await self._on_end(held.key, held.state)
