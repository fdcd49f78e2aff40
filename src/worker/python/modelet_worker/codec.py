"""
Decodes and encodes payloads in Python. src/wire/codec/codec.ts defines the format.

The json module converts JSON values. NaN, infinities, dates, sets, cycles and integers that a JavaScript number cannot
hold travel in V8's format, see structured.py. For binaries see binaries.py. Python and JavaScript share one codec, so
that stages of both can follow each other in a route without anything in between that opens the payloads.
"""
import json
import math
import re
import struct
from datetime import datetime
from typing import Any, List, NamedTuple, Sequence, Tuple, Union

from .binaries import BUFFER, Unusable, decode_binary, encode_binary, is_binary, plain_of, shaped
from .errors import ModeletError
from .frames import Bytes, padded
from .structured import LARGEST_SAFE
from .structured_reader import Reader
from .structured_writer import Writer, key_of

NONE, JSON, BYTES, BINARY, SECTIONS, STRUCTURED, JSON_TEXT = range(7)

# Deeper values are refused: a recursive parser would run out of stack.
DEEPEST = 1000
# Integers of 16 digits are the shortest that a JavaScript number may not hold. The translation to zeros finds 16 digits
# in a row quickly; the expression then excludes the digits of fractions.
TO_ZEROS = bytes(ord("0") if chr(code).isdigit() and code < 128 else code for code in range(256))
SIXTEEN_DIGITS = b"0" * 16
LONG_INTEGER = re.compile(rb"(?:^|[,:\[-])\d{16}")


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
            return Reader(content).read()
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
        code = "payload_too_large" if blame == "invalid_input" else blame
        raise ModeletError(code, f"payload is {payload.length} bytes; the limit is {max_bytes} bytes")
    return payload


def _encode(value: Any) -> Payload:
    if is_binary(value):
        kind, content = encode_binary(value)
        if kind == BUFFER:
            return _payload(BYTES, [content])
        return _payload(BINARY, [bytes([kind, 0, 0, 0, 0, 0, 0, 0]), content])
    try:
        text = _utf8(_ENCODER.encode(value))
        if not _may_be_unsafe(text) and text.count(b"[") + text.count(b"{") <= DEEPEST:
            return _payload(JSON, [text])
    except (ValueError, TypeError, _NotJson):
        pass  # ValueError: NaN or a cycle. TypeError: a key that is no text. _NotJson: a binary, a date or a set.
    return _encode_slowly(value)


def _encode_slowly(value: Any) -> Payload:
    binaries: List[Tuple[List[Any], int, Bytes]] = []
    try:
        lifted = _lift(value, [], binaries)
    except _NotJson:
        return _payload(STRUCTURED, [Writer(DEEPEST).write(value)])
    if not binaries:
        return _payload(JSON, [_utf8(_ENCODER.encode(lifted))])
    head = _utf8(_ENCODER.encode({"value": lifted, "paths": [path for path, _, _ in binaries]}))
    index = struct.pack("<II", len(head), len(binaries))
    index += b"".join(struct.pack("<II", kind, len(content)) for _, kind, content in binaries)
    parts: List[Bytes] = [index, head, _padding(len(head))]
    for _, _, content in binaries:
        parts += [content, _padding(len(content))]
    return _payload(SECTIONS, parts)


def _parse_json_text(text: bytes) -> Any:
    """Parses JSON as an HTTP client sent it; src/wire/codec/json-text.ts does the same for JavaScript."""
    try:
        # `utf-8-sig` ignores a byte order mark. Invalid bytes become U+FFFD, as in JavaScript.
        decoded = text.decode("utf-8-sig", "replace")
        parse_int = _integer if _may_be_unsafe(text) else None
        return json.loads(decoded, parse_int=parse_int, parse_constant=_refuse_constant)
    except RecursionError as cause:
        raise ModeletError("invalid_input", f"the value is nested deeper than {DEEPEST} levels") from cause
    except ValueError as cause:
        raise ModeletError("bad_request", f"the body is not valid JSON: {cause}") from cause


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"unexpected {name}")


def _parse(text: bytes) -> Any:
    """Parses JSON. An integer beyond JavaScript's safe integers becomes a float, because JavaScript sent a float."""
    decoded = text.decode("utf-8")
    return json.loads(decoded, parse_int=_integer) if _may_be_unsafe(text) else json.loads(decoded)


def _integer(digits: str) -> Union[int, float]:
    number = int(digits)
    return number if abs(number) <= LARGEST_SAFE else float(digits)


def _may_be_unsafe(text: bytes) -> bool:
    return SIXTEEN_DIGITS in text.translate(TO_ZEROS) and LONG_INTEGER.search(text) is not None


def _payload(codec: int, parts: Sequence[Bytes]) -> Payload:
    return Payload(codec, parts, sum(len(part) for part in parts))


def _padding(length: int) -> bytes:
    return bytes(padded(length) - length)


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        # UTF-8 cannot encode half of a surrogate pair; a JSON escape can.
        return "".join(f"\\u{ord(char):04x}" if "\ud800" <= char <= "\udfff" else char for char in text).encode("utf-8")


def _unlike_json(value: Any) -> Any:
    """Converts a value that the json module does not know. Raises _NotJson if JSON cannot represent the value."""
    if is_binary(value) or isinstance(value, (datetime, set, frozenset)):
        raise _NotJson
    return plain_of(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_unlike_json)


def _lift(value: Any, path: List[Any], binaries: List[Tuple[List[Any], int, Bytes]]) -> Any:
    """Returns the value for JSON with null in place of each binary. Adds each binary and its path to `binaries`."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, float)):
        if isinstance(value, int) and abs(value) > LARGEST_SAFE or not math.isfinite(value):
            raise _NotJson
        return value
    if len(path) >= DEEPEST:
        # Cycles also end here.
        raise _NotJson
    if isinstance(value, dict):
        return {key: _lift_member(member, key, path, binaries) for key, member in _with_text_keys(value)}
    if isinstance(value, (list, tuple)):
        return [_lift_member(member, index, path, binaries) for index, member in enumerate(value)]
    if is_binary(value):
        binaries.append((list(path), *encode_binary(value)))
        return None
    return _lift(_unlike_json(value), path, binaries)


def _lift_member(member: Any, key: Any, path: List[Any], binaries: List[Tuple[List[Any], int, Bytes]]) -> Any:
    path.append(key)
    lifted = _lift(member, path, binaries)
    path.pop()
    return lifted


def _with_text_keys(value: Any) -> Any:
    return ((key if isinstance(key, str) else key_of(key), member) for key, member in value.items())


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
    for path in paths:
        if len(path) > 1 and path[-1] == "data":
            _place(holder, path[:-1], shaped(_find(holder, path[:-1])))
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
