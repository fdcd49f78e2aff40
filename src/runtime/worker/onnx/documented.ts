/** Makes JSON Schemas of a model's inputs and outputs, for people to read. read-item.ts accepts more than they say. */
import type { OnnxPresets } from '../../../config/stage-source.ts';
import { GIVES } from '../../../config/tasks/presets.ts';
import type { PayloadSchema } from '../../../core/model.ts';
import { schemaOfKind } from '../tasks/inputs.ts';
import { describePort, type Ports, type SessionPort } from './ports.ts';
import { type ResultOptions, scoresAt } from './results.ts';

type Shape = SessionPort['shape'];

interface Documented {
  readonly inputSchema: PayloadSchema;
  readonly outputSchema: PayloadSchema;
}

/** Returns the schemas of items that are no tensors, and of results that are not. */
export function documentedItems(ofPorts: Documented, { takes, gives }: OnnxPresets): Documented {
  const { ofRequest, result } = GIVES[gives];
  return {
    inputSchema: takes === 'picture' ? schemaOfKind('picture', ofRequest) : ofPorts.inputSchema,
    outputSchema: gives === 'tensors' ? ofPorts.outputSchema : result,
  };
}

/** Returns the schemas. `stacked`: items come without the first dimension, which is the batch. */
export function documentedPorts({ inputs, outputs }: Ports, stacked: boolean, options: ResultOptions): Documented {
  const shapeOf = ({ shape }: SessionPort): Shape | null => (shape.length === 0 ? null : shape.slice(stacked ? 1 : 0));
  const taken = inputs.map((port) => [port.name, inputOf(port, shapeOf(port))] as const);
  // If items run alone, the shape of an output is unknown: the first dimension is removed only if it turns out to be 1.
  const given = outputs.map(
    (port, index) =>
      [
        port.name,
        outputOf(port, stacked ? shapeOf(port) : null, index === scoresAt(outputs, options), options),
      ] as const,
  );
  return { inputSchema: oneOrAll(taken), outputSchema: oneOrAll(given) };
}

/** Returns the schema of a single port's value, or of an object by name for several ports. */
function oneOrAll(ports: readonly (readonly [string, PayloadSchema])[]): PayloadSchema {
  const [first] = ports;
  if (ports.length === 1 && first) return first[1];
  return { type: 'object', properties: Object.fromEntries(ports), required: ports.map(([name]) => name) };
}

/** `shape`: null if it is unknown. */
function inputOf(port: SessionPort, shape: Shape | null): PayloadSchema {
  const description = `${describePort(port)}; also as a flat array, or as {data, dims, type}`;
  if (!shape) return { description };
  const values = nested(port, shape);
  return shape.length > 1
    ? { description, anyOf: [values, { type: 'array', items: element(port) }] }
    : { description, ...values };
}

function outputOf(
  port: SessionPort,
  shape: Shape | null,
  hasScores: boolean,
  { labels, tensors }: ResultOptions,
): PayloadSchema {
  if (tensors) {
    const description = `${describePort(port)}; in msgpack {data, dims, type}`;
    return shape ? { description, ...nested(port, shape) } : { description };
  }
  if (!hasScores || !labels) return shape ? nested(port, shape) : { description: describePort(port) };
  const scores = { type: 'array', items: { type: 'number' }, minItems: labels.length, maxItems: labels.length };
  return {
    type: 'object',
    required: ['label', 'index', 'score', 'scores'],
    properties: { label: { enum: labels }, index: { type: 'integer' }, score: { type: 'number' }, scores },
  };
}

/** Returns the schema of nested arrays, one level per dimension. */
function nested(port: SessionPort, shape: Shape): Readonly<Record<string, unknown>> {
  return shape.reduceRight<Readonly<Record<string, unknown>>>((items, length) => {
    const exactly = typeof length === 'number' ? { minItems: length, maxItems: length } : {};
    return { type: 'array', items, ...exactly };
  }, element(port));
}

function element({ type }: SessionPort): Readonly<Record<string, unknown>> {
  if (type === 'bool') return { type: 'boolean' };
  if (type === 'string') return { type: 'string' };
  return { type: type.startsWith('float') ? 'number' : 'integer' };
}
