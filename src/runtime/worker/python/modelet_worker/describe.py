"""
Describes a modelet for people: its schemas and first examples as JSON text, within length limits.
src/runtime/worker/modelet/describe.ts does the same for JavaScript.
"""
import json
from typing import Any, Dict, Optional

from .modelet import LoadedModelet, Log
from .schemas import either

LONGEST_SCHEMA = 262_144
LONGEST_EXAMPLE = 4096
MOST_EXAMPLES = 3


def describe(modelet: LoadedModelet, definition: Dict[str, Any], log: Log) -> Dict[str, Any]:
    """Returns the description. `definition`: its schemas override the modelet's, as in the checks."""
    texts = [_text(example) for example in modelet.examples[:MOST_EXAMPLES]]
    batching = {} if modelet.singly is None else {"batching": {"items": "singly", "text": modelet.singly}}
    return {
        **batching,
        "inputSchema": _schema("input_schema", either(definition.get("inputSchema"), modelet.input_schema), log),
        "outputSchema": _schema("output_schema", either(definition.get("outputSchema"), modelet.output_schema), log),
        "examples": [text for text in texts if text is not None and len(text) <= LONGEST_EXAMPLE],
    }


def _schema(name: str, schema: Any, log: Log) -> Optional[str]:
    text = None if schema is None else _text(schema)
    if text is None or len(text) <= LONGEST_SCHEMA:
        return text
    log.warn(f"{name} is checked, and not shown in the OpenAPI document: it has {len(text)} characters")
    return None


def _text(value: Any) -> Optional[str]:
    """Returns the JSON text, or None for values without one: bytes, numpy arrays, NaN."""
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None
