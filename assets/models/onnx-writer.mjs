/**
 * Writes small ONNX models. An ONNX file is a protocol buffer; this writes of it what a graph of standard operators
 * needs. The numbers in brackets are those of the fields in onnx.proto.
 */

/** Types of elements, and the arrays that have their bytes. */
const TYPES = {
  float32: [1, Float32Array],
  uint8: [2, Uint8Array],
  int32: [6, Int32Array],
  int64: [7, BigInt64Array],
  string: [8, null],
  bool: [9, Uint8Array],
  float64: [11, Float64Array],
};
const ATTRIBUTE_INT = 2;
/** Versions of the format and of the operators that every runtime of the last years knows. */
const IR_VERSION = 8;
const OPERATORS = 13;

function varint(value) {
  const bytes = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return Buffer.from([...bytes, rest]);
}

const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);

function bytes(field, content) {
  const data = Buffer.from(content);
  return Buffer.concat([varint(field * 8 + 2), varint(data.length), data]);
}

const message = (field, ...parts) => bytes(field, Buffer.concat(parts));

/** NodeProto: input [1], output [2], op_type [4], attribute [5] with name [1], i [3], type [20] */
function node({ operator, inputs, output, attributes = {} }) {
  return message(
    1,
    ...inputs.map((name) => bytes(1, name)),
    bytes(2, output),
    bytes(4, operator),
    ...Object.entries(attributes).map(([name, value]) =>
      message(5, bytes(1, name), number(3, value), number(20, ATTRIBUTE_INT)),
    ),
  );
}

/** TensorProto: dims [1], data_type [2], name [8], raw_data [9] */
function constant({ name, type = 'float32', dims, values }) {
  const [code, Elements] = TYPES[type];
  const raw = Buffer.from(Elements.from(values).buffer);
  return message(5, ...dims.map((dim) => number(1, dim)), number(2, code), bytes(8, name), bytes(9, raw));
}

/** ValueInfoProto: name [1], type [2]; a dimension is a value [1], a name [2], or neither */
function port(field, { name, type = 'float32', shape }) {
  const dims = shape.map((dim) => message(1, dimension(dim)));
  return message(field, bytes(1, name), message(2, message(1, number(1, TYPES[type][0]), message(2, ...dims))));
}

function dimension(dim) {
  if (typeof dim === 'number') return number(1, dim);
  return dim === '' ? Buffer.alloc(0) : bytes(2, dim);
}

/**
 * @param {object} graph
 * @param {{name: string, type?: string, shape: (number | string)[]}[]} graph.inputs text is the name of an open dimension
 * @param {{name: string, type?: string, shape: (number | string)[]}[]} graph.outputs
 * @param {{operator: string, inputs: string[], output: string, attributes?: Record<string, number>}[]} graph.nodes
 * @param {{name: string, type?: string, dims: number[], values: Iterable<number | bigint>}[]} [graph.constants]
 * @returns {Buffer} the content of the file
 */
export function onnxModel({ name, inputs, outputs, nodes, constants = [] }) {
  // GraphProto: node [1], name [2], initializer [5], input [11], output [12]
  const graph = message(
    7,
    ...nodes.map(node),
    bytes(2, name),
    ...constants.map(constant),
    ...inputs.map((input) => port(11, input)),
    ...outputs.map((output) => port(12, output)),
  );
  // ModelProto: ir_version [1], graph [7], opset_import [8] with version [2]
  return Buffer.concat([number(1, IR_VERSION), graph, message(8, number(2, OPERATORS))]);
}
