"""
Defines the codec "structured", for values that JSON cannot hold: NaN and infinities, BigInt, Date, Map, Set, undefined
in arrays, cycles. The format is that of v8.serialize, version 15, which Node.js 20 and all later versions read.

| JavaScript             | Python                                                          |
|------------------------|-----------------------------------------------------------------|
| BigInt                 | int; an int beyond 2^53 - 1 goes back as one                    |
| Date                   | datetime in UTC; one without a zone is local time, as in Python |
| Map, Set               | dict, set; a dict goes back as an object                        |
| undefined, holes       | None                                                            |
| Number, Boolean, String objects | their value                                            |
| RegExp, Error, invalid Date     | refused                                                |
"""
from datetime import datetime, timezone

VERSION = 15
LARGEST_SAFE = 2**53 - 1
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# The position is the number that Node.js uses for the type of a view.
VIEWS = (
    "Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array",
    "Float32Array", "Float64Array", "DataView", "Buffer", "BigInt64Array", "BigUint64Array", "Float16Array",
)  # fmt: skip
