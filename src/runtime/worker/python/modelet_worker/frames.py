"""
Reads and writes frames on the channel to the parent. src/wire/frames/frames.ts and items.ts define the layout; this
file and those must change together.
"""
import json
import select
import socket
import struct
import threading
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import forks
from .slots import PADDINGS, Room, SlotLane, padded

WIRE_VERSION = 6
LONGEST_FRAME = 1 << 30
CHANNEL_FD = 3

# The position is the type's number in frames.
TYPES = (
    "boot", "plan", "load", "cancel", "close", "report", "status", "log", "submit", "outcomes", "batch", "reply",
    "taps", "act", "usage", "ping", "pong", "check", "checked", "loaded", "try", "tried",
    "open", "calls", "answers", "described", "parts", "taken", "openapi", "recall", "began",
    "progress", "recalled", "fork", "exited",
)  # fmt: skip

# length, version, type, 0, items, JSON bytes, runs or bytes of a slot, batch, runMs or place of a slot
HEAD = struct.Struct("<IBBHIIdd")
# id, deadline, priority, part (in batches: tenure), flags, codec, timings, payload, meta, place in a slot
RECORD = struct.Struct("<ddiIBBHIII8x")
TIMING = 24
OK = 1
STREAMS = 4
TOGETHER = 8
IN_SLOT = 32
READ_AT_ONCE = 65_536
# Of places in slots, in bytes.
PLACE_UNIT = 8
# Parts of at least this size in bytes are sent without a copy. Smaller parts are joined first.
COPY_BELOW = 65_536

Bytes = Union[bytes, bytearray, memoryview]


class Item(NamedTuple):
    """
    An incoming request. The payload is a view into its frame. `streams`: the caller wants the parts of a result. `tenure`:
    number of the stay of its key at this worker; 0: it has no key. `begins`: the key begins with an empty state; `ends`:
    its state ends with the item. `state`: the state with which the worker must begin, in base64; src/wire/frames/
    key-snapshots.ts has the layout.
    """

    id: float
    deadline: float
    codec: int
    payload: memoryview
    streams: bool = False
    tenure: int = 0
    key: str = ""
    begins: bool = False
    ends: bool = False
    state: str = ""


class Reply(NamedTuple):
    """
    The reply to a request: a value, an encoded error, or one part of a result with its index as `part`. The payload is
    the concatenation of `parts`. `together`: the item failed only because a call for several items did. `meta`: the
    snapshot of its key's state; blank: the state is as it was, or the stage keeps none.
    """

    id: float
    ok: bool
    codec: int
    parts: Sequence[Bytes]
    length: int
    error: Optional[BaseException] = None
    part: int = 0
    together: bool = False
    meta: bytes = b""


class Frame(NamedTuple):
    """A decoded frame. A control frame has a `body`; a batch has `batch`, `items` and maybe a slot for its results."""

    type: str
    body: Any = None
    batch: float = 0
    items: Sequence[Item] = ()
    room: Optional[Room] = None


class MalformedFrame(Exception):
    code = "protocol_error"


ReadSlot = Callable[[int, int], memoryview]


class Channel:
    """
    The inherited socket to the parent. Only one thread may read; any thread may send. A forked child that comes to use
    it has no more to do, and ends.
    """

    def __init__(self, fd: int = CHANNEL_FD) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(True)
        # Programs that the modelet starts must not keep the channel open.
        self._socket.set_inheritable(False)
        self._begun = bytearray()
        self._slots = SlotLane()
        self._sending = threading.Lock()

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def wait(self, seconds: Optional[float]) -> bool:
        """Waits for something to read and returns whether it came within `seconds`. None: waits without a limit."""
        forks.leave()
        return len(self._begun) >= HEAD.size or bool(select.select([self._socket], [], [], seconds)[0])

    def read(self) -> Frame:
        """Waits for the next frame and returns it. Raises EOFError if the parent is gone."""
        while len(self._begun) < HEAD.size:
            chunk = self._socket.recv(READ_AT_ONCE)
            if not chunk:
                raise EOFError("the channel has ended")
            self._begun += chunk
        (length,) = struct.unpack_from("<I", self._begun)
        if length < HEAD.size or length % 8 != 0 or length > LONGEST_FRAME:
            raise MalformedFrame(f"malformed frame: a length of {length} bytes")
        frame = decode(self._take(length), self._slots.read)
        self._slots.received(frame.batch, frame.room)
        return frame

    def _take(self, length: int) -> bytearray:
        """Returns a frame in its own memory, so that values that share a payload's memory never touch another frame."""
        have = min(length, len(self._begun))
        frame = bytearray(length)
        frame[:have] = self._begun[:have]
        del self._begun[:have]
        rest = memoryview(frame)[have:]
        while rest:
            count = self._socket.recv_into(rest)
            if count == 0:
                raise EOFError("the channel has ended within a frame")
            rest = rest[count:]
        return frame

    def send(self, kind: str, body: Any) -> None:
        text = json.dumps(body, allow_nan=False).encode("ascii")
        length = HEAD.size + padded(len(text))
        head = HEAD.pack(length, WIRE_VERSION, TYPES.index(kind), 0, 0, len(text), 0, 0)
        self._write([head, text, bytes(length - HEAD.size - len(text))])

    def reply(self, batch: float, run_ms: float, runs: int, replies: Sequence[Reply]) -> None:
        self._send_items("reply", batch, run_ms, runs, replies)

    def part(self, part: Reply) -> None:
        self._send_items("parts", 0, 0, 0, [part])

    def _send_items(self, kind: str, batch: float, run_ms: float, runs: int, replies: Sequence[Reply]) -> None:
        length = HEAD.size
        records: List[Bytes] = []
        metas: List[Bytes] = []
        payloads: List[Bytes] = []
        places = self._slots.places(batch, replies) if kind == "reply" else {}
        for index, (id_, ok, codec, parts, size, _, part, together, meta) in enumerate(replies):
            place = places.get(index)
            flags = (OK if ok else TOGETHER if together else 0) | (0 if place is None else IN_SLOT)
            records.append(RECORD.pack(id_, 0, 0, part, flags, codec, 0, size, len(meta), (place or 0) // PLACE_UNIT))
            if meta:
                metas += [meta, PADDINGS[-len(meta) & 7]]
            length += RECORD.size + padded(len(meta))
            if place is None:
                payloads += parts
                payloads.append(PADDINGS[-size & 7])
                length += padded(size)
        head = HEAD.pack(length, WIRE_VERSION, TYPES.index(kind), 0, len(replies), runs, batch, run_ms)
        self._write([head, *records, *metas, *payloads])

    def _write(self, parts: Sequence[Bytes]) -> None:
        forks.leave()
        with self._sending:
            if sum(map(len, parts)) < COPY_BELOW:
                self._socket.sendall(b"".join(parts))
                return
            small: List[Bytes] = []
            for part in parts:
                if len(part) < COPY_BELOW:
                    small.append(part)
                    continue
                self._socket.sendall(b"".join(small))
                self._socket.sendall(part)
                small = []
            self._socket.sendall(b"".join(small))


def reply_length(reply: Reply) -> int:
    """Returns the number of bytes that the reply takes in a frame."""
    return RECORD.size + padded(reply.length)


def decode(frame: bytearray, read: ReadSlot) -> Frame:
    length, version, kind, _, count, json_length, batch, at = HEAD.unpack_from(frame)
    if version != WIRE_VERSION:
        raise MalformedFrame(f"malformed frame: version {version} instead of {WIRE_VERSION}")
    if kind >= len(TYPES):
        raise MalformedFrame(f"malformed frame: unknown type {kind}")
    name = TYPES[kind]
    view = memoryview(frame)
    if name != "batch":
        return Frame(name, body=json.loads(str(view[HEAD.size : HEAD.size + json_length], "utf-8")))
    room = Room(int(at), json_length) if json_length else None
    return Frame(name, batch=batch, items=_items(view, count, read), room=room)


def _items(view: memoryview, count: int, read: ReadSlot) -> List[Item]:
    at = HEAD.size + count * RECORD.size
    records = list(RECORD.iter_unpack(view[HEAD.size : at]))
    meta_at = at + sum(record[6] for record in records) * TIMING
    at = meta_at + sum(padded(record[8]) for record in records)
    items = []
    for id_, deadline, _, tenure, flags, codec, _, length, meta, place in records:
        key = _key(view[meta_at : meta_at + meta]) if tenure else ()
        if flags & IN_SLOT:
            payload = read(place * PLACE_UNIT, length)
        else:
            payload = view[at : at + length]
            at += padded(length)
        items.append(Item(id_, deadline, codec, payload, flags & STREAMS != 0, tenure, *key))
        meta_at += padded(meta)
    if at != len(view):
        raise MalformedFrame("malformed frame: its length is not that of its items")
    return items


def _key(meta: memoryview) -> Tuple[str, bool, bool, str]:
    """Returns the key of a request, whether it begins and ends the key, and the key's state; each blank if it has none."""
    try:
        told = json.loads(str(meta, "utf-8"))
        begins, ends = (told.get(name) is True for name in ("keyStart", "keyEnd"))
        return str(told.get("key", "")), begins, ends, str(told.get("state", ""))
    except (ValueError, AttributeError):
        return "", False, False, ""
