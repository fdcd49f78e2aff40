/** The tensors of a model of the KServe v2 protocol, as far as its stages say what they take and give. */
import type { ModeletDescription } from '../../core/model.ts';
import type { ModelPort } from '../../core/tensor.ts';
import { datatypeOf } from './datatypes.ts';
import { MOST_DIMENSIONS } from './infer-request.ts';

/** Name of the only output, if the result is a tensor instead of tensors by name, and the model has none for it. */
export const ONLY_OUTPUT = 'output';

/** An output that the last stage or its schema promises. */
export interface PromisedOutput extends ModelPort {
  /** Whether the model itself has it. Else the schema says which JSON the result has, and a tensor keeps its own type. */
  readonly ofModel: boolean;
  /** Whether a result may lack it. */
  readonly isOptional: boolean;
}

interface TensorMetadata {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
}

/** The keywords of a JSON Schema that say which tensor a value becomes. */
interface TensorSchema {
  readonly $ref?: unknown;
  readonly type?: unknown;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, unknown>>;
  readonly required?: unknown;
  readonly items?: unknown;
  readonly minItems?: unknown;
  readonly maxItems?: unknown;
}

/** The size of a dimension that may be any. */
const OPEN = -1;

/** Types of elements by the types of JSON. Plain numbers become FP64, whole ones too. */
const ELEMENTS: ReadonlyMap<unknown, string> = new Map([
  ['number', 'float64'],
  ['integer', 'float64'],
  ['boolean', 'bool'],
  ['string', 'string'],
]);

/** Returns the inputs; none if the first stage does not say which. */
export function inputsOf(first: ModeletDescription | null): TensorMetadata[] {
  return (first?.inputs ?? []).map(metadataOf);
}

/** Returns the outputs of which the last stage or its schema says what they are. */
export function outputsOf(last: ModeletDescription | null): TensorMetadata[] {
  return promisedOutputs(last).map(metadataOf);
}

/** The promised outputs by description, so that no request parses the schema again. */
const promises: WeakMap<ModeletDescription, readonly PromisedOutput[]> = new WeakMap();

export function promisedOutputs(last: ModeletDescription | null): readonly PromisedOutput[] {
  if (!last) return [];
  const known = promises.get(last) ?? promisesOf(last);
  promises.set(last, known);
  return known;
}

function promisesOf({ outputs, outputSchema }: ModeletDescription): readonly PromisedOutput[] {
  if (!outputs) return outputSchema === null ? [] : portsOf(outputSchema);
  return outputs.map((port) => ({ ...port, ofModel: true, isOptional: false }));
}

function metadataOf({ name, type, shape }: ModelPort): TensorMetadata {
  const sizes = shape.map((dimension) => (typeof dimension === 'number' ? dimension : OPEN));
  return { name, datatype: datatypeOf(type)?.name ?? type, shape: sizes };
}

function portsOf(text: string): PromisedOutput[] {
  const whole = asSchema(JSON.parse(text));
  const { properties, required, ...value } = resolved(whole, whole);
  const values = properties ? Object.entries(properties) : [[ONLY_OUTPUT, value] as const];
  const needed = Array.isArray(required) && required.length > 0 ? required : null;
  return values.flatMap(([name, one]) => {
    const port = portOf(name, asSchema(one), whole);
    return port
      ? { ...port, ofModel: false, isOptional: properties !== undefined && needed?.includes(name) === false }
      : [];
  });
}

/** Returns the tensor that a value of the schema becomes; null if the schema does not say. */
function portOf(name: string, value: TensorSchema, whole: TensorSchema): ModelPort | null {
  const shape: (number | string)[] = [];
  let schema = resolved(value, whole);
  // Of an array that contains itself, the schema does not say the shape.
  while (schema.type === 'array' && shape.length < MOST_DIMENSIONS) {
    const { minItems, maxItems, items } = schema;
    shape.push(typeof minItems === 'number' && minItems === maxItems ? minItems : '');
    schema = resolved(asSchema(items), whole);
  }
  const texts = schema.enum?.every((one) => typeof one === 'string') ? 'string' : undefined;
  const type = ELEMENTS.get(schema.type ?? texts);
  return type === undefined ? null : { name, type, shape: shape.length > 0 ? shape : [1] };
}

/** Follows a reference within the document, such as pydantic writes them; anything, if it leads nowhere. */
function resolved(schema: TensorSchema, whole: TensorSchema): TensorSchema {
  if (typeof schema.$ref !== 'string') return schema;
  const [start, ...keys] = schema.$ref.split('/');
  const found = keys.reduce<unknown>((part, key) => (part as Record<string, unknown> | undefined)?.[key], whole);
  const target = asSchema(start === '#' ? found : null);
  // One step only: references may form a circle.
  return target.$ref === undefined ? target : {};
}

function asSchema(value: unknown): TensorSchema {
  return typeof value === 'object' && value !== null ? value : {};
}
