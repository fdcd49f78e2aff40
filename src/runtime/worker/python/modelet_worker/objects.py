"""
Converts objects of well-known libraries to plain Python values, as their users expect to see them in JSON.

| object                                        | plain value                                                       |
|-----------------------------------------------|-------------------------------------------------------------------|
| dataclass, pydantic model                     | dict of its fields                                                |
| enum member                                   | its value                                                         |
| Decimal, UUID, path, date, time               | text; a Decimal keeps all its digits                              |
| pandas: DataFrame; Series and Index           | list of dicts, one per row; list, or numpy array of numbers       |
| pandas: Timestamp; NaT and NA                 | datetime; None                                                    |
| numpy: scalar, array of text or of objects    | number, boolean, text; list                                       |
| numpy: array of several dimensions, or whose  | `{data, dims, type}` with its elements in an array of one         |
| elements have a type that JavaScript lacks    | dimension and of a type that JavaScript has                       |
| numpy: masked array                           | list, with None for masked elements                               |
| numpy: datetime64, alone or in an array       | datetime in UTC, None for NaT                                     |

Never imports a library: an object of a library exists only if the modelet has imported it.
"""
import array
import sys
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timezone
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from .binaries import Unusable, numpy

# Methods of well-known libraries' objects that return their data.
_GIVE_DATA = (
    *("numpy", "to_dicts", "to_numpy", "toarray", "to_dict", "to_list", "tolist"),
    *("total_seconds", "_asdict", "isoformat"),
)
_TEXTS = (Decimal, UUID, PurePath)
_SCALARS = {"b": bool, "i": int, "u": int, "f": float}


def plain_of(value: Any) -> Any:
    """Returns a plain value, which may hold further objects. Raises Unusable for an object of an unknown class."""
    np = numpy()
    if np is not None and isinstance(value, (np.ndarray, np.generic)):
        return _plain_of_numpy(np, value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, _TEXTS):
        return str(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and isinstance(value, pydantic.BaseModel):
        # `dict` is the name before pydantic 2.
        return value.model_dump() if hasattr(value, "model_dump") else value.dict()
    pandas = sys.modules.get("pandas")
    if pandas is not None:
        return _plain_of_pandas(pandas, value)
    raise _unusable(value)


def results_of(value: Any) -> Any:
    """
    Returns what a batch gave, for an iteration over its results. The rows of a frame are its results, whose iteration has
    its columns, and a row of a matrix is an array of one dimension. Raises Unusable.
    """
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, pandas.DataFrame):
        return plain_of(value)
    np = numpy()
    return np.asarray(value) if np is not None and isinstance(value, np.matrix) else value


def datetime_of(value: datetime) -> Any:
    """Returns a datetime of the standard library for one of any library, or None for NaT of pandas."""
    if value != value:
        return None
    return value.to_pydatetime(warn=False) if hasattr(value, "to_pydatetime") else value


def iso_text(moment: datetime) -> str:
    """Returns the text that a Date of JavaScript has in JSON."""
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json_form_of(value: Any) -> Any:
    """Returns the value as a client gets it in JSON, for a schema. Bytes and objects of unknown classes stay unchanged."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, dict):
        return {key: json_form_of(member) for key, member in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_form_of(member) for member in value]
    if isinstance(value, datetime):
        moment = datetime_of(value)
        return moment if moment is None else iso_text(moment)
    np = numpy()
    if isinstance(value, array.array) or (np is not None and isinstance(value, np.ndarray) and value.dtype.kind in _SCALARS):
        return value.tolist()
    try:
        return json_form_of(plain_of(value))
    except Unusable:
        return value


def _unusable(value: Any) -> Unusable:
    reason = f"a value of type {type(value).__name__}"
    method = next((name for name in _GIVE_DATA if callable(getattr(type(value), name, None))), None)
    return Unusable(reason) if method is None else Unusable(reason, f"return what its {method}() gives")


def _plain_of_pandas(pandas: Any, value: Any) -> Any:
    if value is pandas.NA:
        return None
    if isinstance(value, pandas.DataFrame):
        if not value.columns.is_unique:
            raise Unusable("a DataFrame with two columns of one name", "give its columns different names")
        return value.to_dict(orient="records")
    if isinstance(value, (pandas.Series, pandas.Index)):
        has_numbers = getattr(value.dtype, "kind", "O") in _SCALARS and not hasattr(value.dtype, "na_value")
        return value.to_numpy() if has_numbers else value.tolist()
    raise _unusable(value)


def _plain_of_numpy(np: Any, value: Any) -> Any:
    kind = value.dtype.kind
    if kind == "M":
        return _times(value.astype("M8[ms]").tolist())
    if isinstance(value, np.ma.MaskedArray):
        if kind in "biufUSOT":
            return value.tolist()
    elif kind in _SCALARS:
        # A plain array: a matrix would keep two dimensions whatever its shape.
        return _SCALARS[kind](value[()]) if value.ndim == 0 else _tensor_of(np.asarray(value))
    elif kind in "USOT":
        return value.tolist()
    raise Unusable(f"a numpy value of type {value.dtype}", "return numbers, booleans or text, or what its astype(str) gives")


def _tensor_of(value: Any) -> Any:
    """Returns an array as `{data, dims, type}`, whose data travel as one binary."""
    data, name = value.reshape(-1), value.dtype.name
    if name == "bool":
        data = data.view("u1")
    elif name == "float16":
        # Some versions of Node.js lack half floats.
        data = data.astype("f4")
    elif value.dtype.kind == "f" and value.dtype.itemsize > 8:
        name = "float64"
    return {"data": data, "dims": list(value.shape), "type": name}


def _times(value: Any) -> Any:
    if isinstance(value, list):
        return [_times(member) for member in value]
    if isinstance(value, int):
        raise Unusable("a numpy datetime64 beyond the years of a datetime")
    return None if value is None else value.replace(tzinfo=timezone.utc)
