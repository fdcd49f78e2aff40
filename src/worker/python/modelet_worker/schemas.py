"""
Compiles the checks of a stage's inputs and results. Schemas in the stage's settings override the modelet's own. The
package jsonschema is needed, and imported, only if there is a schema.
"""
import json
import sys
from itertools import islice
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from .errors import ModeletError
from .modelet import LoadedModelet

# Most problems reported for one value. A larger input may have millions, so only its first problem is reported.
MOST_PROBLEMS = 10
THOROUGH_UP_TO = 65_536
LONGEST_QUOTE = 200


class Checks(NamedTuple):
    """
    Each check raises ModeletError for an invalid value and is None if any value is allowed. The check of inputs returns
    the value.
    """

    input: Optional[Callable[[Any, int], Any]]
    output: Optional[Callable[[Any], None]]


ANYTHING = Checks(None, None)


def checks_of(definition: Dict[str, Any], modelet: LoadedModelet) -> Checks:
    """Returns the checks. Raises an error that names the schema that cannot be used or the package that is missing."""
    input_schema = either(definition.get("inputSchema"), modelet.input_schema)
    output_schema = either(definition.get("outputSchema"), modelet.output_schema)
    check_input = None if input_schema is None else _validator("inputSchema", input_schema)
    check_output = None if output_schema is None else _validator("outputSchema", output_schema)

    def accept(value: Any, size: int) -> Any:
        problems = check_input(value, MOST_PROBLEMS if size <= THOROUGH_UP_TO else 1)
        if problems:
            raise ModeletError("invalid_input", _in_words("input", problems), details=problems)
        return value

    def approve(value: Any) -> None:
        problems = check_output(value, 1)
        if problems:
            raise ModeletError("modelet_failed", _in_words("output", problems), details=problems)

    return Checks(check_input and accept, check_output and approve)


def either(first: Any, second: Any) -> Any:
    return second if first is None else first


def _validator(name: str, schema: Any) -> Callable[[Any, int], List[Dict[str, str]]]:
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
    return lambda value, most: [_problem(error) for error in islice(validator.iter_errors(value), most)]


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


def _in_words(what: str, problems: List[Dict[str, str]]) -> str:
    return "; ".join(f"{what}{problem['path']} {problem['message']}" for problem in problems)
