"""Writes V8's serialization format; see structured.py."""
import struct
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, List

from .binaries import NAMES, Unusable, encode_binary, is_binary, plain_of
from .structured import EPOCH, LARGEST_SAFE, VERSION, VIEWS

# Types that a Writer writes as JavaScript objects, besides binaries.
OBJECTS = (dict, list, tuple, set, frozenset, datetime)


class Writer:
    """
    Writes one value. Raises Unusable for a value without an equal in JavaScript, and RecursionError for one that is
    nested too deep.
    """

    def __init__(self, deepest: int) -> None:
        self._deepest = deepest
        self._out = bytearray((0xFF, VERSION))
        self._numbers: Dict[int, int] = {}
        # Keeps each numbered object alive: `_numbers` uses addresses, and a freed address could be reused.
        self._kept: List[Any] = []

    def write(self, value: Any) -> bytearray:
        self._value(value, 0)
        return self._out

    def _varint(self, number: int) -> None:
        while number >= 0x80:
            self._out.append(number & 0x7F | 0x80)
            number >>= 7
        self._out.append(number)

    def _tag(self, tag: str) -> None:
        self._out.append(ord(tag))

    def _value(self, value: Any, depth: int) -> None:
        if depth > self._deepest:
            raise RecursionError
        if value is None:
            self._tag("0")
        elif value is True or value is False:
            self._tag("T" if value else "F")
        elif isinstance(value, int):
            self._int(int(value))
        elif isinstance(value, float):
            self._double("N", value)
        elif isinstance(value, str):
            self._text(value)
        else:
            self._reference(value, depth)

    def _int(self, number: int) -> None:
        if -(2**30) <= number < 2**30:
            self._tag("I")
            self._varint(number << 1 if number >= 0 else (-number << 1) - 1)
        elif abs(number) <= LARGEST_SAFE:
            self._double("N", float(number))
        else:
            digits = abs(number).to_bytes((number.bit_length() + 63) // 64 * 8, "little")
            self._tag("Z")
            self._varint(len(digits) << 1 | (number < 0))
            self._out += digits

    def _double(self, tag: str, number: float) -> None:
        self._tag(tag)
        self._out += struct.pack("<d", number)

    def _text(self, text: str) -> None:
        try:
            tag, content = '"', text.encode("latin-1")
        except UnicodeEncodeError:
            tag, content = "c", text.encode("utf-16-le", "surrogatepass")
        self._tag(tag)
        self._varint(len(content))
        self._out += content

    def _reference(self, value: Any, depth: int) -> None:
        number = self._numbers.get(id(value))
        if number is not None:
            self._tag("^")
            self._varint(number)
            return
        if not is_binary(value) and not isinstance(value, OBJECTS):
            plain = plain_of(value)
            self._kept.append(plain)
            self._value(plain, depth)
            return
        self._numbers[id(value)] = len(self._numbers)
        self._kept.append(value)
        self._object(value, depth + 1)

    def _object(self, value: Any, depth: int) -> None:
        if is_binary(value):
            self._view(*encode_binary(value))
        elif isinstance(value, dict):
            self._tag("o")
            for key, member in value.items():
                self._text(key if isinstance(key, str) else key_of(key))
                self._value(member, depth)
            self._tag("{")
            self._varint(len(value))
        elif isinstance(value, (list, tuple)):
            self._tag("A")
            self._varint(len(value))
            for member in value:
                self._value(member, depth)
            self._tag("$")
            self._varint(0)
            self._varint(len(value))
        elif isinstance(value, (set, frozenset)):
            self._tag("'")
            for member in value:
                self._value(member, depth)
            self._tag(",")
            self._varint(len(value))
        else:
            # Rounded down to the whole milliseconds of a Date.
            aware = value.astimezone(timezone.utc)
            self._double("D", float((aware - EPOCH) // timedelta(milliseconds=1)))
    def _view(self, kind: int, content: Any) -> None:
        name = next(name for name, number in NAMES.items() if number == kind)
        self._tag("\\")
        self._varint(VIEWS.index(name))
        self._varint(len(content))
        self._out += content


def key_of(key: Any) -> str:
    """Returns the text of a dict's key, as the json module writes it."""
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, (int, float)):
        return repr(key)
    raise Unusable(f"a key of type {type(key).__name__}")
