"""
The large payloads of batches and replies, which are not in their frames but in files that the worker inherits; the frame
says where. src/wire/slots does the same for JavaScript; this file and those must change together.
"""
import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

# Files: of the slots that the engine lends for batches, and of those with requests, which a worker only reads.
LENT_FD = 4
OTHER_FD = 5
# Places from here on are in the other file.
OTHER = 2**34
# Payloads of at least so many bytes go into a slot.
SLOT_FROM = 32_768
# Most buffers in one system call.
MOST_BUFFERS = 512
PADDINGS = [bytes(length) for length in range(8)]


class Room(NamedTuple):
    """The slot of a batch: it has the large inputs, and then takes the results."""

    at: int
    bytes: int


def padded(length: int) -> int:
    return (length + 7) & ~7


class SlotLane:
    def __init__(self) -> None:
        # The slots of batches that have not been answered.
        self._rooms: Dict[float, Room] = {}
        for fd in (LENT_FD, OTHER_FD):
            try:
                # Programs that the modelet starts must not keep the memory.
                os.set_inheritable(fd, False)
            except OSError:
                pass  # There are no such slots.

    def read(self, at: int, length: int) -> memoryview:
        payload = memoryview(bytearray(length))
        fd, start = (LENT_FD, at) if at < OTHER else (OTHER_FD, at - OTHER)
        filled = 0
        while filled < length:
            count = os.preadv(fd, [payload[filled:]], start + filled)
            if count == 0:
                raise EOFError("the slots have ended")
            filled += count
        return payload

    def received(self, batch: float, room: Optional[Room]) -> None:
        if room:
            self._rooms[batch] = room

    def places(self, batch: float, replies: Sequence[Any]) -> Dict[int, int]:
        """Writes the large results that fit into the slot of the batch. Returns their places, by index."""
        room = self._rooms.pop(batch, None)
        places: Dict[int, int] = {}
        if room is None:
            return places
        at, end = room.at, room.at + room.bytes
        for index, reply in enumerate(replies):
            if reply.length < SLOT_FROM or at + padded(reply.length) > end:
                continue
            if not _write([*reply.parts, PADDINGS[-reply.length & 7]], at):
                break
            places[index] = at
            at += padded(reply.length)
        return places


def _write(parts: List[Any], at: int) -> bool:
    """Returns whether there was memory for all parts."""
    for first in range(0, len(parts), MOST_BUFFERS):
        some = parts[first : first + MOST_BUFFERS]
        length = sum(map(len, some))
        try:
            if os.pwritev(LENT_FD, some, at) < length:
                return False
        except OSError:
            return False
        at += length
    return True
