"""
Converts binaries between JavaScript and Python as raw bytes. src/wire/codec/binaries.ts defines the kinds.

| JavaScript                    | arrives as                                            | goes back as           |
|-------------------------------|-------------------------------------------------------|------------------------|
| Buffer, ArrayBuffer, DataView | bytes                                                 | Buffer                 |
| typed array                   | numpy array if the modelet has imported numpy,        | the same typed array   |
|                               | else array.array                                      |                        |

Never imports numpy: a modelet that does not use it must not wait for it. numpy arrays share memory with their frame,
and only this batch uses that frame.
"""
import array
import struct
import sys
from typing import Any, Tuple

from .frames import Bytes

BUFFER = 0

# JavaScript name and type code of struct and array. The position is the kind's number. A blank code means bytes.
KINDS = (
    ("Buffer", ""),
    ("ArrayBuffer", ""),
    ("DataView", ""),
    ("Int8Array", "b"),
    ("Uint8Array", "B"),
    ("Uint8ClampedArray", "B"),
    ("Int16Array", "h"),
    ("Uint16Array", "H"),
    ("Int32Array", "i"),
    ("Uint32Array", "I"),
    ("Float32Array", "f"),
    ("Float64Array", "d"),
    ("BigInt64Array", "q"),
    ("BigUint64Array", "Q"),
    ("Float16Array", "e"),
)
FLOAT_16 = 14
NAMES = {name: kind for kind, (name, _) in enumerate(KINDS)}
_SIGNED = {1: 3, 2: 6, 4: 8, 8: 12}
_UNSIGNED = {1: 4, 2: 7, 4: 9, 8: 13}
_FLOATING = {4: 10, 8: 11}


class Unusable(Exception):
    """A value that no other process can use. Gives the reason, and tells a modelet's author what to return instead."""

    def __init__(self, reason: str, instead: str = "return a dict, a list, a number, text, bytes or a numpy array") -> None:
        super().__init__(reason)
        self.instead = instead


def numpy() -> Any:
    """Returns numpy if the modelet or one of its modules has imported it, else None."""
    return sys.modules.get("numpy")


def decode_binary(kind: int, content: memoryview) -> Any:
    """Decodes one binary. Raises ValueError for bytes that no encoder wrote."""
    code = KINDS[kind][1] if kind < len(KINDS) else None
    if code is None:
        raise ValueError(f"binary kind {kind} is not known here")
    if code == "":
        return bytes(content)
    if len(content) % struct.calcsize(code) != 0:
        raise ValueError(f"{len(content)} bytes are no {KINDS[kind][0]}")
    np = numpy()
    if np is not None:
        return np.frombuffer(content, dtype=code) if len(content) > 0 else np.empty(0, dtype=code)
    if kind == FLOAT_16:
        # The array module has no half floats.
        return array.array("f", struct.unpack(f"{len(content) // 2}e", content))
    made = array.array(code)
    made.frombytes(content)
    return made


def is_binary(value: Any) -> bool:
    """
    Whether the value travels as one binary. False for arrays that a typed array cannot stand for: masked ones, those of
    several dimensions, and those of booleans or half floats; see objects.py.
    """
    if isinstance(value, (bytes, bytearray, memoryview, array.array)):
        return True
    np = numpy()
    if np is None or not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype.kind not in "iuf":
        return False
    return value.dtype.char != "e" and not isinstance(value, np.ma.MaskedArray)


def encode_binary(value: Any) -> Tuple[int, Bytes]:
    """Returns the kind and the bytes of a value for which `is_binary` holds."""
    if isinstance(value, (bytes, bytearray)):
        return BUFFER, value
    if isinstance(value, memoryview):
        if value.format in ("B", "c"):
            return BUFFER, value if value.c_contiguous and value.ndim == 1 else value.tobytes()
        return _kind_of(value.format, value.itemsize), value.tobytes()
    if isinstance(value, array.array):
        return _kind_of(value.typecode, value.itemsize), memoryview(value).cast("B") if value else b""
    return _encode_numpy(numpy(), value)


def _encode_numpy(np: Any, value: Any) -> Tuple[int, Bytes]:
    dtype = value.dtype
    if dtype.kind == "f" and dtype.itemsize not in _FLOATING:
        # Node.js has no floats longer than 64 bits.
        dtype = np.dtype("f8")
    own = np.ascontiguousarray(value, dtype=dtype.newbyteorder("="))
    return _kind_of(own.dtype.char, own.itemsize), memoryview(own.view("u1"))


def _kind_of(code: str, size: int) -> int:
    """Returns the kind for a type code of struct, array or numpy. The code may begin with a byte order."""
    if code[-1] in "bhilq":
        return _SIGNED[size]
    if code[-1] in "BHILQ?":
        return _UNSIGNED[size]
    if code[-1] in "fd":
        return _FLOATING[size]
    raise Unusable(f"an array of type {code!r}")


def shaped(value: Any) -> Any:
    """Returns the array for `{data, dims, type}` if numpy is imported. Returns any other value unchanged."""
    np = numpy()
    if np is None or type(value) is not dict or value.keys() != {"data", "dims", "type"}:
        return value
    data, dims, name = value["data"], value["dims"], value["type"]
    is_shaped = (
        isinstance(data, np.ndarray)
        and data.ndim == 1
        and isinstance(dims, list)
        and all(isinstance(size, int) and size >= 0 for size in dims)
        and _product(dims) == data.size
    )
    if not is_shaped:
        return value
    if name == "bool" and data.dtype == "u1":
        data = data.view("?")
    elif name == "float16" and data.dtype == "f4":
        data = data.astype("f2")
    return data.reshape(dims)


def _product(sizes: Any) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product
