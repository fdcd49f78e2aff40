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
  /** Its values are the bits. */
  float16: [10, Uint16Array],
  float64: [11, Float64Array],
  bfloat16: [16, Uint16Array],
  int4: [22, null],
};
/** Versions of the format and of the operators that every runtime of the last years knows. */
const IR_VERSION = 8;
const OPERATORS = 13;
/** The operators of other models than neural networks, which have their own domain. */
const ML = 'ai.onnx.ml';
const ML_OPERATORS = 1;

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

/** NodeProto: input [1], output [2], op_type [4], attribute [5], domain [7] */
function node({ operator, domain = '', inputs, output, outputs = [output], attributes = {} }) {
  return message(
    1,
    ...inputs.map((name) => bytes(1, name)),
    ...outputs.map((name) => bytes(2, name)),
    bytes(4, operator),
    ...Object.entries(attributes).map(([name, value]) => message(5, bytes(1, name), ...attribute(value))),
    ...(domain ? [bytes(7, domain)] : []),
  );
}

/** AttributeProto: i [3], s [4], floats [7], ints [8], strings [9], type [20] */
function attribute(value) {
  if (typeof value === 'number') return [number(3, value), number(20, 2)];
  if (typeof value === 'string') return [bytes(4, value), number(20, 3)];
  if (value instanceof Float32Array) return [bytes(7, Buffer.from(value.buffer)), number(20, 6)];
  const isText = typeof value[0] === 'string';
  return [...value.map((one) => (isText ? bytes(9, one) : number(8, one))), number(20, isText ? 8 : 7)];
}

/** TensorProto: dims [1], data_type [2], name [8], raw_data [9], external_data [13], data_location [14] */
function constant({ name, type = 'float32', dims, values, file }) {
  const [code, Elements] = TYPES[type];
  const elsewhere = file && [message(13, bytes(1, 'location'), bytes(2, file)), number(14, 1)];
  const data = elsewhere ?? [bytes(9, Buffer.from(Elements.from(values).buffer))];
  return message(5, ...dims.map((dim) => number(1, dim)), number(2, code), bytes(8, name), ...data);
}

/**
 * ValueInfoProto: name [1], type [2]; a dimension is a value [1], a name [2], or neither. TypeProto: tensor_type [1],
 * sequence_type [4], map_type [5]
 */
function port(field, { name, type = 'float32', shape, maps }) {
  return message(field, bytes(1, name), message(2, maps ? message(4, message(1, map(maps))) : tensor(type, shape)));
}

const tensor = (type, shape) =>
  message(1, number(1, TYPES[type][0]), message(2, ...shape.map((dim) => message(1, dimension(dim)))));

/** To one float32 each. */
const map = (keys) => message(5, number(1, TYPES[keys][0]), message(2, tensor('float32', [])));

function dimension(dim) {
  if (typeof dim === 'number') return number(1, dim);
  return dim === '' ? Buffer.alloc(0) : bytes(2, dim);
}

/**
 * @param {object} graph
 * @param {{name: string, type?: string, shape: (number | string)[]}[]} graph.inputs text is the name of an open dimension
 * @param {{name: string, type?: string, shape?: (number | string)[], maps?: string}[]} graph.outputs with `maps`, the type
 *   of their keys, a sequence of maps
 * @param {{operator: string, domain?: string, inputs: string[], output?: string, outputs?: string[],
 *   attributes?: Record<string, number | string | Float32Array | number[] | string[]>}[]} graph.nodes
 * @param {{name: string, type?: string, dims: number[], values?: Iterable<number | bigint>, file?: string}[]}
 *   [graph.constants] with `file`, their values are in that file beside the model
 * @param {number} [graph.operators] version of the operators
 * @returns {Buffer} the content of the file
 */
export function onnxModel({ name, inputs, outputs, nodes, constants = [], operators: version = OPERATORS }) {
  // GraphProto: node [1], name [2], initializer [5], input [11], output [12]
  const graph = message(
    7,
    ...nodes.map(node),
    bytes(2, name),
    ...constants.map(constant),
    ...inputs.map((input) => port(11, input)),
    ...outputs.map((output) => port(12, output)),
  );
  // ModelProto: ir_version [1], graph [7], opset_import [8] with domain [1] and version [2]
  const operators = [message(8, number(2, version))];
  if (nodes.some(({ domain }) => domain === ML)) operators.push(message(8, bytes(1, ML), number(2, ML_OPERATORS)));
  return Buffer.concat([number(1, IR_VERSION), graph, ...operators]);
}
