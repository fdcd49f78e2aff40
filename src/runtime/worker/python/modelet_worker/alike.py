"""
Compares two answers to the same input. Floats may differ in their last digits: sums may run in another order.
src/runtime/worker/batch/alike.ts does the same for JavaScript.
"""
import array
import json
import math
from typing import Any, NamedTuple, Optional, Sequence, Tuple

from .binaries import numpy

# Greatest difference of two floats, as a part of the largest float of their array. Other elements must be equal.
TOLERANCE = {"float16": 1e-2, "float32": 1e-3, "float64": 1e-6, "f": 1e-3, "d": 1e-6}
# Tolerance of numbers that are in no typed array: most come from 32-bit floats.
PLAIN = 1e-3
# Whole numbers may be labels or indexes.
WHOLE = 0.0
# Differences of single floats that are this small come from rounding.
NOTHING = 1e-6
MOST_SHOWN = 4
BEYOND = 2**1000


class Difference(NamedTuple):
    """Two values that should be equal, and their place in the answers: names and indexes."""

    at: Tuple[str, ...]
    alone: Any
    together: Any


def difference_of(one: Any, other: Any, at: Tuple[str, ...] = ()) -> Optional[Difference]:
    """Returns the first difference, or None if the answers are alike."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        pairs = [(str(name), one[name], other[name]) for name in one]
    elif _is_list(one) and _is_list(other) and len(one) == len(other):
        pairs = [(str(index), *pair) for index, pair in enumerate(zip(one, other))]
    else:
        return None if _are_leaves_alike(one, other) else Difference(at, one, other)
    return next(filter(None, (difference_of(mine, its, (*at, name)) for name, mine, its in pairs)), None)


def describe_difference(difference: Difference) -> str:
    """Says for people what differs: `"y" is [0.641, 0.01] alone, and [0.651, 0.018] together`."""
    what = json.dumps(".".join(difference.at)) if difference.at else "the result"
    return f"{what} is {_shown(difference.alone)} alone, and {_shown(difference.together)} together"


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and not _is_numbers(value)


def _is_number(value: Any) -> bool:
    """Whether the value is a number that a float can stand for."""
    return isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < BEYOND)


def _is_numbers(value: Any) -> bool:
    """Whether the value is a list of numbers only, which share their scale."""
    return isinstance(value, list) and len(value) > 0 and all(map(_is_number, value))


def _are_leaves_alike(one: Any, other: Any) -> bool:
    np = numpy()
    if np is not None and isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return _are_arrays_alike(np, one, other)
    if _is_number(one) and _is_number(other):
        tolerance = _tolerance_of([one, other])
        return _are_close([one], [other], _largest_of([one, other]) * tolerance if tolerance else 0, tolerance and NOTHING)
    if isinstance(one, array.array) and isinstance(other, array.array) and one.typecode == other.typecode:
        return _are_close(one, other, _largest_of(one) * TOLERANCE.get(one.typecode, 0))
    if _is_numbers(one) and _is_numbers(other):
        tolerance = _tolerance_of([*one, *other])
        return _are_close(one, other, _largest_of(one) * tolerance if tolerance else 0)
    return type(one) is type(other) and not isinstance(one, (dict, list)) and bool(one == other)


def _are_arrays_alike(np: Any, one: Any, other: Any) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    tolerance = TOLERANCE.get(one.dtype.name)
    if tolerance is None:
        return bool(np.array_equal(one, other))
    mine, its = one.astype("f8"), other.astype("f8")
    finite = np.abs(mine[np.isfinite(mine)])
    most = finite.max() * tolerance if finite.size else 0
    with np.errstate(invalid="ignore"):
        alike = (mine == its) | (np.isnan(mine) & np.isnan(its)) | (np.abs(mine - its) <= most)
    return bool(alike.all())


def _tolerance_of(numbers: Sequence[Any]) -> float:
    return WHOLE if all(isinstance(number, int) or number.is_integer() for number in numbers) else PLAIN


def _largest_of(numbers: Sequence[Any]) -> float:
    return max((abs(number) for number in numbers if math.isfinite(number)), default=0)


def _are_close(one: Sequence[Any], other: Sequence[Any], *most: float) -> bool:
    if len(one) != len(other):
        return False
    return all(
        mine == its or (mine != mine and its != its) or abs(mine - its) <= max(most) for mine, its in zip(one, other)
    )


def _shown(value: Any) -> str:
    np = numpy()
    shape: Sequence[int] = ()
    if np is not None and isinstance(value, np.ndarray):
        shape = value.shape if value.ndim != 1 else ()
        value = value.reshape(-1)
    elif not isinstance(value, (array.array, bytes)) and not _is_numbers(value):
        if value is None or isinstance(value, (str, bool, int, float)):
            return _rounded(value)
        return f"a list of {len(value)}" if isinstance(value, list) else "another object"
    first = [_rounded(element) for element in value[:MOST_SHOWN]]
    more = ", ..." if len(value) > MOST_SHOWN else ""
    dims = f" of shape [{', '.join(map(str, shape))}]" if shape else ""
    return f"[{', '.join(first)}{more}]{dims}"


def _rounded(value: Any) -> str:
    value = value.item() if hasattr(value, "item") else value
    if not isinstance(value, float) or not math.isfinite(value):
        return json.dumps(value)
    if not value.is_integer():
        value = float(f"{value:.3g}")
    return str(int(value)) if value.is_integer() else str(value)
