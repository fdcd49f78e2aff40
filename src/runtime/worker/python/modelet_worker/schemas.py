"""
Schemas of a stage's inputs and results. Those in the stage's settings override the modelet's own. The engine checks the
inputs: its compiled checks take microseconds, where Python takes a part of a millisecond. Results are checked here, in the
form that they have in JSON, which needs the package jsonschema.
"""
import json
import re
import sys
from typing import Any, Callable, Dict, Optional

from .errors import ModeletError
from .modelet import LoadedModelet
from .objects import json_form_of

LONGEST_QUOTE = 200

# Raises ModeletError for a result that breaks the schema.
OutputCheck = Callable[[Any], None]


def input_schema_of(definition: Dict[str, Any], modelet: LoadedModelet) -> Any:
    """Returns the schema of inputs; None: any input is valid. Raises ValueError if it is no JSON."""
    schema = either(definition.get("inputSchema"), modelet.input_schema)
    try:
        json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError) as cause:
        raise ValueError(f"inputSchema cannot be used: {cause}") from cause
    return schema


def output_check_of(definition: Dict[str, Any], modelet: LoadedModelet) -> Optional[OutputCheck]:
    """Returns the check of results. Raises an error that names a schema that cannot be used, or the missing package."""
    schema = either(definition.get("outputSchema"), modelet.output_schema)
    if schema is None:
        return None
    validator = _validator_of(schema)

    def approve(value: Any) -> None:
        error = next(validator.iter_errors(json_form_of(value)), None)
        if error is not None:
            problem = _problem(error)
            raise ModeletError("modelet_failed", f"output{problem['path']} {problem['message']}", details=[problem])

    return approve


def either(first: Any, second: Any) -> Any:
    return second if first is None else first


def _validator_of(schema: Any) -> Any:
    try:
        import jsonschema
    except ImportError:
        install = f"{sys.executable} -m pip install jsonschema"
        raise ImportError(f"outputSchema needs the Python package jsonschema: {install}") from None
    dialect = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        dialect.check_schema(schema)
    except jsonschema.SchemaError as cause:
        raise ValueError(f"outputSchema cannot be used: {cause.message}") from cause
    types = dialect.TYPE_CHECKER.redefine("array", lambda _checker, value: isinstance(value, (list, tuple)))
    checked = jsonschema.validators.extend(dialect, type_checker=types)
    return checked(schema, format_checker=jsonschema.FormatChecker())


def _problem(error: Any) -> Dict[str, str]:
    """Describes a problem for the caller. Quotes the schema, never the value."""
    path = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in error.absolute_path)
    return {"path": _quoted(path), "message": _rule(error), "keyword": str(error.validator)}


# How the schemas of JavaScript say it.
_RULES = {
    "minimum": "must be >= {}",
    "maximum": "must be <= {}",
    "exclusiveMinimum": "must be > {}",
    "exclusiveMaximum": "must be < {}",
    "multipleOf": "must be multiple of {}",
    "minLength": "must NOT have fewer than {} characters",
    "maxLength": "must NOT have more than {} characters",
    "minItems": "must NOT have fewer than {} items",
    "maxItems": "must NOT have more than {} items",
    "minProperties": "must NOT have fewer than {} properties",
    "maxProperties": "must NOT have more than {} properties",
    "pattern": 'must match pattern "{}"',
    "format": 'must match format "{}"',
    "const": "must be equal to constant",
    "anyOf": "must match a schema in anyOf",
    "oneOf": "must match exactly one schema in oneOf",
    "not": "must NOT be valid",
}


def _rule(error: Any) -> str:
    keyword, rule = error.validator, error.validator_value
    if keyword == "type":
        return f"must be {','.join(rule if isinstance(rule, list) else [rule])}"
    if keyword == "required":
        # jsonschema gives one error per name, and only its text has the name: 'name' is a required property.
        return f"must have required property {error.message.rsplit(' is a required', 1)[0]}"
    if keyword == "enum":
        return f"must be equal to one of the allowed values: {_quoted(', '.join(map(json.dumps, rule)))}"
    if keyword == "additionalProperties" and rule is False:
        return f'must NOT have additional properties: "{_quoted(_additional(error))}"'
    if keyword in _RULES:
        return _RULES[keyword].format(_quoted(str(rule)))
    return f"must be valid by {keyword}: {_quoted(json.dumps(rule))}"


def _additional(error: Any) -> str:
    """Returns the name of the first property that the schema does not know."""
    known, patterns = error.schema.get("properties", {}), error.schema.get("patternProperties", {})
    names = (str(name) for name in error.instance if name not in known)
    return next((name for name in names if not any(re.search(pattern, name) for pattern in patterns)), "")


def _quoted(text: str) -> str:
    return text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "..."

