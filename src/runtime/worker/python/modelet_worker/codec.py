"""
Decodes and encodes payloads in Python. src/wire/codec/codec.ts defines the format.

The json module converts JSON values. Binaries (see binaries.py), NaN, infinities, dates, sets and integers that a
JavaScript number cannot hold travel beside the JSON, see src/wire/codec/sections.ts. Python and JavaScript share one
codec, so that stages of both can follow each other in a route without anything in between that opens the payloads.

| JavaScript     | Python                                                          |
|----------------|-----------------------------------------------------------------|
| BigInt         | int; an int beyond 2^53 - 1 goes back as one                    |
| Date           | datetime in UTC; one without a zone is local time, as in Python |
| Map, Set       | dict, set; a dict goes back as an object                        |
| undefined      | None                                                            |
| cycles, RegExp, Error, boxed values, invalid Date | refused                      |
"""
import json
import math
import re
import struct
from codecs import BOM_UTF8
from datetime import datetime, timedelta, timezone
from typing import Any, List, NamedTuple, Sequence, Tuple, Union

from .binaries import BUFFER, Unusable, decode_binary, encode_binary, is_binary, shaped
from .errors import ModeletError
from .frames import PADDINGS, Bytes, padded
from .objects import datetime_of, iso_text, plain_of

NONE, JSON, BYTES, BINARY, SECTIONS, STRUCTURED, JSON_TEXT, LIST = range(8)

LARGEST_SAFE = 2**53 - 1
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# Deeper values are refused: a recursive parser would run out of stack.
DEEPEST = 1000
# Integers of 16 digits are the shortest that a JavaScript number may not hold. The translation to zeros finds 16 digits
# in a row quickly; the expression then excludes the digits of fractions.
TO_ZEROS = bytes(ord("0") if chr(code).isdigit() and code < 128 else code for code in range(256)).replace(b"E", b"e")
SIXTEEN_DIGITS = b"0" * 16
# A float beyond a double's range has an exponent of three digits, or hundreds of digits.
LARGE_EXPONENT = b"e000"
MANY_DIGITS = b"0" * 200
LONG_INTEGER = re.compile(rb"(?:^|[,:\[-])\d{16}")

SPECIAL = (datetime, set, frozenset)
TEXT_ONLY = {str}
# Types of members that hold no dicts.
LEAVES = {str, int, float, bool, type(None)}


class Payload(NamedTuple):
    """An encoded value. Its bytes are the parts in order. The parts may share memory with the value."""

    codec: int
    parts: Sequence[Bytes]
    length: int


class _NotJson(Exception):
    """JSON cannot represent the value, but another codec can."""


def decode_payload(codec: int, content: memoryview) -> Any:
    """
    Decodes a payload. Raises ModeletError: `protocol_error` if the bytes do not match their codec, `invalid_input` if
    Python cannot represent the value, `bad_request` if the text of an HTTP client is not JSON.
    """
    if codec == JSON_TEXT:
        return _parse_json_text(bytes(content))
    try:
        if codec == NONE:
            return None
        if codec == JSON:
            return _parse(bytes(content))
        if codec == BYTES:
            return bytes(content)
        if codec == BINARY:
            return decode_binary(content[0], content[8:])
        if codec == SECTIONS:
            return _decode_sections(content)
        if codec == STRUCTURED:
            raise Unusable("a cycle, a RegExp, an Error or a boxed value")
    except Unusable as reason:
        raise ModeletError("invalid_input", f"the input has {reason}") from reason
    except (ValueError, LookupError, TypeError, struct.error, RecursionError) as cause:
        raise ModeletError("protocol_error", f"payload cannot be decoded: {cause}") from cause
    raise ModeletError("protocol_error", f"payload has an unknown codec {codec}")


def encode_payload(value: Any, max_bytes: int, blame: str = "modelet_failed") -> Payload:
    """
    Encodes a value. Raises ModeletError with code `blame` if the value cannot be sent or is too large. A value that is
    too large has the code `payload_too_large` instead if `blame` is `invalid_input`.
    """
    try:
        payload = _encode(value)
    except Unusable as reason:
        advice = f": {reason.instead}" if blame == "modelet_failed" else ""
        raise ModeletError(blame, f"the value is or has {reason}, which no other process can use{advice}") from reason
    except RecursionError as reason:
        raise ModeletError(blame, f"the value is nested deeper than {DEEPEST} levels") from reason
    if payload.length > max_bytes:
        is_input = blame == "invalid_input"
        code, what = ("payload_too_large", "payload") if is_input else (blame, "the result")
        raise ModeletError(code, f"{what} is {payload.length} bytes; the limit is {max_bytes} bytes")
    return payload


def encode_list(value: Any, max_bytes: int) -> Payload:
    """
    Encodes the items of a list or tuple, each by itself; src/wire/codec/lists.ts has the layout. Raises ModeletError as
    `encode_payload` does, and for any other value.
    """
    if not isinstance(value, (list, tuple)):
        what = f"a value of type {type(value).__name__}"
        raise ModeletError("modelet_failed", f"the stage emits lists, and its result is {what} instead of a list")
    items = [encode_payload(item, max_bytes) for item in value]
    length = sum(item.length for item in items)
    if length > max_bytes:
        raise ModeletError("modelet_failed", f"the result is {length} bytes; the limit is {max_bytes} bytes")
    parts: List[Bytes] = [struct.pack("<II", len(items), 0)]
    parts += [struct.pack("<II", item.codec, item.length) for item in items]
    for item in items:
        parts += [*item.parts, PADDINGS[-item.length & 7]]
    return _payload(LIST, parts)


def _encode(value: Any) -> Payload:
    if type(value) is not dict and is_binary(value):
        kind, content = encode_binary(value)
        if kind == BUFFER:
            return _payload(BYTES, [content])
        return _payload(BINARY, [bytes([kind, 0, 0, 0, 0, 0, 0, 0]), content])
    _check_keys(value)
    try:
        text = _utf8(_ENCODER.encode(value))
        is_flat = len(text) <= DEEPEST or text.count(b"[") + text.count(b"{") <= DEEPEST
        if is_flat and not _may_be_unsafe(text):
            return Payload(JSON, (text,), len(text))
    except (ValueError, TypeError, _NotJson):
        pass  # ValueError: NaN or a cycle. TypeError: a key that is no text. _NotJson: a binary, a date or a set.
    return _encode_slowly(value)


def _encode_slowly(value: Any) -> Payload:
    binaries: List[Tuple[List[Any], int, Bytes]] = []
    specials: List[Tuple[Any, ...]] = []
    lifted = _Lift(binaries, specials).value(value, [])
    if not binaries and not specials:
        return _payload(JSON, [_utf8(_ENCODER.encode(lifted))])
    beside = {"paths": [path for path, _, _ in binaries], "specials": specials}
    head = _utf8(_ENCODER.encode({"value": lifted, **beside}))
    index = struct.pack("<II", len(head), len(binaries))
    index += b"".join(struct.pack("<II", kind, len(content)) for _, kind, content in binaries)
    parts: List[Bytes] = [index, head, PADDINGS[-len(head) & 7]]
    for _, _, content in binaries:
        parts += [content, PADDINGS[-len(content) & 7]]
    return _payload(SECTIONS, parts)


def _parse_json_text(text: bytes) -> Any:
    """
    Parses JSON as an HTTP client sent it; src/wire/codec/json-text.ts does the same for JavaScript. Integers of any size
    stay exact: no JavaScript number has been between.
    """
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as cause:
        raise _not_json("it is not UTF-8") from cause
    try:
        decoder = _FINITE_DECODER if _may_be_infinite(text) else _TEXT_DECODER
        return _decoded(decoder, decoded[1:] if text.startswith(BOM_UTF8) else decoded)
    except RecursionError as cause:
        raise ModeletError("invalid_input", f"the value is nested deeper than {DEEPEST} levels") from cause
    except ValueError as cause:
        raise _not_json(str(cause)) from cause


def _not_json(why: str) -> ModeletError:
    return ModeletError("bad_request", f"the body is not valid JSON: {why}")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"unexpected {name}")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _not_json("it has a number beyond 1.8e308")
    return number


def _may_be_infinite(text: bytes) -> bool:
    zeros = text.translate(TO_ZEROS, b"+")
    return LARGE_EXPONENT in zeros or MANY_DIGITS in zeros


def _parse(text: bytes) -> Any:
    """Parses JSON. An integer beyond JavaScript's safe integers becomes a float, because JavaScript sent a float."""
    return _decoded(_LONG_DECODER if _may_be_unsafe(text) else _DECODER, text.decode("utf-8"))


def _decoded(decoder: json.JSONDecoder, text: str) -> Any:
    try:
        value, end = decoder.raw_decode(text)
        if end == len(text):
            return value
    except ValueError:
        pass
    # White space around the value, or an error.
    return decoder.decode(text)


def _integer(digits: str) -> Union[int, float]:
    number = int(digits)
    return number if abs(number) <= LARGEST_SAFE else float(digits)


# Made once: `json.loads` with options would make a decoder for each value.
_DECODER = json.JSONDecoder()
_LONG_DECODER = json.JSONDecoder(parse_int=_integer)
_TEXT_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_FINITE_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse_constant)


def _may_be_unsafe(text: bytes) -> bool:
    return SIXTEEN_DIGITS in text.translate(TO_ZEROS) and LONG_INTEGER.search(text) is not None


def _payload(codec: int, parts: Sequence[Bytes]) -> Payload:
    return Payload(codec, parts, sum(len(part) for part in parts))


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        # UTF-8 cannot encode half of a surrogate pair; a JSON escape can.
        return "".join(f"\\u{ord(char):04x}" if "\ud800" <= char <= "\udfff" else char for char in text).encode("utf-8")


def _unlike_json(value: Any) -> Any:
    """Converts a value that the json module does not know. Raises _NotJson if JSON cannot represent the value."""
    if is_binary(value) or isinstance(value, SPECIAL):
        raise _NotJson
    plain = plain_of(value)
    _check_keys(plain)
    return plain


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_unlike_json)


class _Lift:
    """Makes JSON of a value, with placeholders for what JSON cannot hold. Adds that, with its path, to two lists."""

    def __init__(self, binaries: List[Tuple[List[Any], int, Bytes]], specials: List[Tuple[Any, ...]]) -> None:
        self._binaries = binaries
        self._specials = specials

    def value(self, value: Any, path: List[Any]) -> Any:
        if value is None or isinstance(value, (str, bool)):
            return value
        if isinstance(value, int):
            return value if abs(value) <= LARGEST_SAFE else self._special(path, "BigInt", format(value, "x"))
        if isinstance(value, float):
            return value if math.isfinite(value) else self._special(path, "Number", _number(value))
        if len(path) > DEEPEST:
            # Cycles also end here.
            raise RecursionError
        if isinstance(value, dict):
            return {key: self._member(member, key, path) for key, member in _with_text_keys(value)}
        if isinstance(value, (list, tuple)):
            return [self._member(member, index, path) for index, member in enumerate(value)]
        if is_binary(value):
            self._binaries.append((list(path), *encode_binary(value)))
            return None
        if isinstance(value, datetime):
            moment = datetime_of(value)
            return moment if moment is None else self._special(path, "Date", _milliseconds(moment))
        if isinstance(value, (set, frozenset)):
            members = self.value(list(value), path)
            self._special(path, "Set")
            return members
        return self.value(_unlike_json(value), path)

    def _special(self, path: List[Any], *special: Any) -> None:
        self._specials.append((list(path), *special))

    def _member(self, member: Any, key: Any, path: List[Any]) -> Any:
        path.append(key)
        lifted = self.value(member, path)
        path.pop()
        return lifted


def _number(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _milliseconds(value: datetime) -> int:
    """Rounds down to the whole milliseconds of a Date."""
    return (value.astimezone(timezone.utc) - EPOCH) // timedelta(milliseconds=1)


def _with_text_keys(value: Any) -> Any:
    return ((key if isinstance(key, str) else _text_of(key), member) for key, member in value.items())


def _check_keys(value: Any) -> None:
    """Raises Unusable if two keys of one dict have the same text, such as 1 and "1": one member would get lost."""
    if isinstance(value, dict):
        if not TEXT_ONLY.issuperset(map(type, value)):
            texts = [key if isinstance(key, str) else _text_of(key) for key in value]
            if len(set(texts)) < len(texts):
                twice = next(text for text in texts if texts.count(text) > 1)
                raise Unusable(f"a dict with two keys that become {json.dumps(twice)}", "give its keys different texts")
        members: Any = value.values()
    elif isinstance(value, (list, tuple)):
        members = value
    else:
        return
    if LEAVES.issuperset(map(type, members)):
        return
    for member in members:
        _check_keys(member)


def _text_of(key: Any) -> str:
    """Returns the text of a dict's key: as the json module writes it, else the text of what the key is as a value."""
    if isinstance(key, str):
        return str(key)
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    # Not repr(key): subclasses, such as numpy's floats and members of an IntEnum, have others.
    if isinstance(key, int):
        return int.__repr__(key)
    if isinstance(key, float):
        return float.__repr__(key)
    if isinstance(key, datetime):
        moment = datetime_of(key)
        return _text_of(moment if moment is None else iso_text(moment))
    try:
        plain = plain_of(key)
    except Unusable:
        plain = key
    if isinstance(plain, (str, int, float, datetime)) or plain is None:
        return _text_of(plain)
    raise Unusable(f"a dict with a key of type {type(key).__name__}", "give the dict keys of text")


def _decode_sections(content: memoryview) -> Any:
    head_length, count = struct.unpack_from("<II", content)
    at = 8 + count * 8
    holder = _parse(bytes(content[at : at + head_length]))
    at += padded(head_length)
    paths = [["value", *path] for path in holder["paths"]]
    for index, path in enumerate(paths):
        kind, length = struct.unpack_from("<II", content, 8 + index * 8)
        if at + length > len(content):
            raise ValueError("a section reaches beyond the payload")
        _place(holder, path, decode_binary(kind, content[at : at + length]))
        at += padded(length)
    # Before a list becomes a Map or Set, through which no path leads.
    for path in paths:
        if len(path) > 1 and path[-1] == "data":
            _place(holder, path[:-1], shaped(_find(holder, path[:-1])))
    for path, kind, *data in holder.get("specials", ()):
        place = ["value", *path]
        _place(holder, place, _MAKE[kind](_find(holder, place), *data))
    return holder["value"]


def _place(holder: Any, path: Sequence[Any], value: Any) -> None:
    target = _find(holder, path[:-1])
    # Raises if the head has no placeholder at this place.
    target[path[-1]]
    target[path[-1]] = value


def _find(holder: Any, path: Sequence[Any]) -> Any:
    for key in path:
        holder = holder[key]
    return holder


def _date(_placeholder: Any, milliseconds: Any) -> datetime:
    try:
        return EPOCH + timedelta(milliseconds=milliseconds)
    except (TypeError, ValueError, OverflowError):
        raise Unusable("a Date that Python cannot hold") from None


def _map(entries: Any) -> Any:
    try:
        return {key: member for key, member in entries}
    except TypeError:
        raise Unusable("a Map of objects") from None


def _set(members: Any) -> Any:
    try:
        return set(members)
    except TypeError:
        raise Unusable("a Set of objects") from None


# Makes each kind of special value from its placeholder and its data.
_MAKE = {
    "Number": lambda _placeholder, text: float(text),
    "BigInt": lambda _placeholder, digits: int(digits, 16),
    "Date": _date,
    "undefined": lambda _placeholder, _data=None: None,
    "Map": lambda entries, _data=None: _map(entries),
    "Set": lambda members, _data=None: _set(members),
}
