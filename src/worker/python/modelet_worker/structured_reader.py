"""Reads V8's serialization format; see structured.py."""
import math
import struct
from datetime import datetime, timedelta
from typing import Any, Callable, Dict, List

from .binaries import NAMES, Unusable, decode_binary
from .structured import EPOCH, LARGEST_SAFE, VERSION, VIEWS

HOLE = object()


class Reader:
    """
    Reads one value. Raises Unusable for a value without an equal in Python, and ValueError or a similar error for
    garbage.
    """

    def __init__(self, content: memoryview) -> None:
        self._bytes = content
        self._at = 0
        # Objects read so far. The position is the number that later references use.
        self._objects: List[Any] = []

    def read(self) -> Any:
        if self._byte() != 0xFF or self._varint() > VERSION:
            raise ValueError("a value of an unknown version")
        return self._value()

    def _take(self, count: int) -> memoryview:
        taken = self._bytes[self._at : self._at + count]
        if len(taken) < count:
            raise ValueError("it ends too early")
        self._at += count
        return taken

    def _byte(self) -> int:
        byte = self._bytes[self._at]
        self._at += 1
        return byte

    def _varint(self) -> int:
        result = shift = 0
        while True:
            byte = self._byte()
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
            shift += 7

    def _double(self) -> float:
        (number,) = struct.unpack("<d", self._take(8))
        return number

    def _tag(self) -> str:
        tag = 0
        while tag == 0:  # padding
            tag = self._byte()
        return chr(tag)

    def _value(self) -> Any:
        tag = self._tag()
        read = self._READERS.get(tag)
        if read is None:
            raise ValueError(f"unknown tag {tag!r}")
        return read(self)

    def _keep(self, value: Any) -> Any:
        self._objects.append(value)
        return value

    def _int(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)

    def _number(self) -> Any:
        number = self._double()
        # Whole numbers become ints, as in JSON. Minus zero stays a float, because an int cannot hold it.
        is_whole = number.is_integer() and abs(number) <= LARGEST_SAFE
        return int(number) if is_whole and math.copysign(1, number or 1) == math.copysign(1, number) else number

    def _bigint(self) -> int:
        field = self._varint()
        size = int.from_bytes(self._take(field >> 1), "little")
        return -size if field & 1 else size

    def _latin(self) -> str:
        return str(self._take(self._varint()), "latin-1")

    def _two_byte(self) -> str:
        return str(self._take(self._varint()), "utf-16-le", "surrogatepass")

    def _utf8(self) -> str:
        return str(self._take(self._varint()), "utf-8")

    def _object(self) -> Dict[Any, Any]:
        made: Dict[Any, Any] = self._keep({})
        self._properties("{", lambda key, value: made.__setitem__(str(key), value))
        self._varint()
        return made

    def _properties(self, end: str, put: Callable[[Any, Any], None]) -> None:
        while True:
            if self._peek() == end:
                self._tag()
                return
            key = self._value()
            put(key, self._value())

    def _peek(self) -> str:
        at = self._at
        tag = self._tag()
        self._at = at
        return tag

    def _dense_array(self) -> List[Any]:
        made: List[Any] = self._keep([])
        for _ in range(self._varint()):
            value = self._value()
            made.append(None if value is HOLE else value)
        # Properties of an array besides its elements are dropped, as in JSON.
        self._properties("$", lambda _key, _value: None)
        self._varint()
        self._varint()
        return made

    def _sparse_array(self) -> List[Any]:
        length = self._varint()
        made: List[Any] = self._keep([None] * length)

        def put(key: Any, value: Any) -> None:
            if isinstance(key, int) and 0 <= key < length:
                made[key] = value

        self._properties("@", put)
        self._varint()
        self._varint()
        return made

    def _date(self) -> datetime:
        number = self._double()
        try:
            return self._keep(EPOCH + timedelta(milliseconds=number))
        except (ValueError, OverflowError):
            raise Unusable("a Date that Python cannot hold") from None

    def _map(self) -> Dict[Any, Any]:
        made: Dict[Any, Any] = self._keep({})
        self._properties(":", lambda key, value: made.__setitem__(_hashable(key, "Map"), value))
        self._varint()
        return made

    def _set(self) -> Any:
        made: Any = self._keep(set())
        while self._peek() != ",":
            made.add(_hashable(self._value(), "Set"))
        self._tag()
        self._varint()
        return made

    def _boxed(self, read: Callable[["Reader"], Any]) -> Any:
        position = len(self._objects)
        self._objects.append(None)
        self._objects[position] = read(self)
        return self._objects[position]

    def _array_buffer(self) -> bytes:
        return self._keep(bytes(self._take(self._varint())))

    def _resizable_buffer(self) -> bytes:
        length = self._varint()
        self._varint()
        return self._keep(bytes(self._take(length)))

    def _view(self) -> Any:
        name = VIEWS[self._varint()]
        return self._keep(decode_binary(NAMES[name], self._take(self._varint())))

    def _refuse(self, what: str) -> Any:
        raise Unusable(f"{what}, which Python has no equal of")

    _READERS: Dict[str, Callable[["Reader"], Any]] = {
        "_": lambda self: None,
        "0": lambda self: None,
        "-": lambda self: HOLE,
        "T": lambda self: True,
        "F": lambda self: False,
        "I": _int,
        "U": _varint,
        "N": _number,
        "Z": _bigint,
        '"': _latin,
        "c": _two_byte,
        "S": _utf8,
        "o": _object,
        "A": _dense_array,
        "a": _sparse_array,
        "D": _date,
        ";": _map,
        "'": _set,
        "y": lambda self: self._keep(True),
        "x": lambda self: self._keep(False),
        "n": lambda self: self._boxed(Reader._number),
        "z": lambda self: self._boxed(Reader._bigint),
        "s": lambda self: self._boxed(Reader._value),
        "B": _array_buffer,
        "~": _resizable_buffer,
        "\\": _view,
        "^": lambda self: self._objects[self._varint()],
        "R": lambda self: self._refuse("a RegExp"),
        "r": lambda self: self._refuse("an Error"),
    }


def _hashable(key: Any, where: str) -> Any:
    try:
        hash(key)
        return key
    except TypeError:
        raise Unusable(f"a {where} of objects, which Python cannot look up") from None
