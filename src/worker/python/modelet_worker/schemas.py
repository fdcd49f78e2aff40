"""
Schemas of a stage's inputs and results. Those in the stage's settings override the modelet's own. The engine checks the
inputs: its compiled checks take microseconds, where Python takes a part of a millisecond. Results are checked here, before
they are encoded, which needs the package jsonschema.
"""
import json
import sys
from typing import Any, Callable, Dict, Optional

from .errors import ModeletError
from .modelet import LoadedModelet

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
    problem_of = _validator("outputSchema", schema)

    def approve(value: Any) -> None:
        problem = problem_of(value)
        if problem:
            raise ModeletError("modelet_failed", f"output{problem['path']} {problem['message']}", details=[problem])

    return approve


def either(first: Any, second: Any) -> Any:
    return second if first is None else first


def _validator(name: str, schema: Any) -> Callable[[Any], Optional[Dict[str, str]]]:
    try:
        import jsonschema
    except ImportError:
        install = f"{sys.executable} -m pip install jsonschema"
        raise ImportError(f"{name} needs the Python package jsonschema: {install}") from None
    dialect = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        dialect.check_schema(schema)
    except jsonschema.SchemaError as cause:
        raise ValueError(f"{name} cannot be used: {cause.message}") from cause
    types = dialect.TYPE_CHECKER.redefine("array", lambda _checker, value: isinstance(value, (list, tuple)))
    validator = jsonschema.validators.extend(dialect, type_checker=types)(
        schema, format_checker=jsonschema.FormatChecker()
    )

    def problem_of(value: Any) -> Optional[Dict[str, str]]:
        error = next(validator.iter_errors(value), None)
        return None if error is None else _problem(error)

    return problem_of


def _problem(error: Any) -> Dict[str, str]:
    """Describes a problem for the caller. Quotes the schema, never the value."""
    path = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in error.absolute_path)
    return {"path": _quoted(path), "message": _rule(error), "keyword": str(error.validator)}


def _rule(error: Any) -> str:
    if error.validator == "type":
        types = error.validator_value if isinstance(error.validator_value, list) else [error.validator_value]
        return f"must be {','.join(types)}"
    if error.validator == "required":
        # jsonschema gives one error per name, and only its text has the name: 'name' is a required property.
        return f"must have required property {error.message.rsplit(' is a required', 1)[0]}"
    rule = json.dumps(error.validator_value)
    return f"must be valid by {error.validator}: {_quoted(rule)}"


def _quoted(text: str) -> str:
    return text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "..."

