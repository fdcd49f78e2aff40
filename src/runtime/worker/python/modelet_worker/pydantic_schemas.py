"""
Makes JSON Schemas of pydantic models, without what no JSON Schema has. The engine compiles schemas strictly: a keyword or
format that it does not know would keep the worker from starting.
"""
import inspect
import re
from typing import Any

# Formats that the engine checks. pydantic has more, such as "path", which say nothing about the text.
_FORMATS = {
    *("date", "time", "date-time", "duration", "uri", "uri-reference", "uri-template", "email", "hostname", "ipv4", "ipv6"),
    *("regex", "uuid", "json-pointer", "relative-json-pointer", "byte", "int32", "int64", "float", "double", "password"),
    *("binary",),
}
# Their values are data, not schemas.
_DATA = {"const", "default", "enum", "example", "examples"}
# Their values are schemas by names of the user.
_BY_NAME = {"properties", "patternProperties", "$defs", "definitions"}


def schema_of(schema: Any, is_output: bool = False) -> Any:
    """Returns the JSON Schema of a pydantic model: of what it takes, or of what it becomes. Returns other values unchanged."""
    if callable(getattr(schema, "model_json_schema", None)):
        if not is_output:
            return _plain(schema.model_json_schema())
        by_alias = bool(schema.model_config.get("serialize_by_alias"))
        return _plain(schema.model_json_schema(by_alias=by_alias, mode="serialization"))
    if inspect.isclass(schema) and hasattr(schema, "__fields__") and callable(getattr(schema, "schema", None)):
        # pydantic 1
        return _plain(schema.schema(by_alias=not is_output))
    return schema


def _plain(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _plain_value(key, value) for key, value in schema.items()}
    if isinstance(schema.get("discriminator"), dict) and "oneOf" in schema:
        # A keyword of OpenAPI, which only tells which schema of a union to look at first.
        del made["discriminator"]
    text_format = schema.get("format")
    if isinstance(text_format, str) and text_format not in _FORMATS:
        del made["format"]
        if re.fullmatch(r"uuid\d", text_format):
            made["format"] = "uuid"
    return made


def _plain_value(keyword: str, value: Any) -> Any:
    if keyword in _DATA:
        return value
    if keyword in _BY_NAME and isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return _plain(value)
