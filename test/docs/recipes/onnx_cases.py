"""
Prints the cases of ONNX's own backend node tests, one JSON object a line: a model, its inputs and its outputs. A value that
is no tensor of a usual type is its kind.
"""
import base64
import json
import warnings

import numpy as np
from onnx.backend.test.case.node import collect_testcases

TYPES = "float16 float32 float64 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool".split()


def tensor(value):
    if not isinstance(value, (np.ndarray, np.generic)):
        return type(value).__name__
    dims = list(np.shape(value))
    value = np.ascontiguousarray(value)
    if value.dtype.kind in "OUS":
        texts = [text.decode() if isinstance(text, bytes) else str(text) for text in value.ravel()]
        return {"type": "string", "dims": dims, "data": texts}
    if value.dtype.name not in TYPES:
        return value.dtype.name
    return {"type": value.dtype.name, "dims": dims, "data": base64.b64encode(value.tobytes()).decode()}


warnings.simplefilter("ignore")
for case in collect_testcases(None):
    graph = case.model.graph
    inputs, outputs = case.data_sets[0]
    print(json.dumps({
        "name": case.name,
        "model": base64.b64encode(case.model.SerializeToString()).decode(),
        "inputs": [[port.name, tensor(value)] for port, value in zip(graph.input, inputs)],
        "outputs": [[port.name, tensor(value)] for port, value in zip(graph.output, outputs)],
        "rtol": case.rtol,
        "atol": case.atol,
    }))
