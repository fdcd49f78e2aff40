/** Makes the answer to an inference request of the KServe v2 protocol from a result. */
import { ModeletError } from '../../core/errors.ts';
import type { Tensor } from '../../core/tensor.ts';
import type { AnswerBody } from '../answer.ts';
import { JSON_TYPE } from '../request-head.ts';
import { datatypeOf } from './datatypes.ts';
import type { InferRequest, WantedOutput } from './infer-request.ts';
import type { PromisedOutput } from './metadata.ts';
import { outputsOfResult, tensorOf, unfit } from './result-tensors.ts';

export interface InferAnswer {
  readonly body: Buffer;
  /** Length of the JSON text, if the bytes of tensors follow it; null: the body is nothing else. */
  readonly jsonLength: number | null;
}

/** The only version of each model: a deploy replaces it. */
export const VERSION = '1';

/**
 * Makes the answer.
 * @param promised the outputs that the model's metadata promise
 * @throws ModeletError `bad_request` if the client asks for an output that the model does not have; `modelet_failed` for
 * a result that is no tensor, or that lacks a promised output
 */
export function inferAnswer(
  model: string,
  request: InferRequest,
  result: unknown,
  promised: readonly PromisedOutput[],
): InferAnswer {
  const found = outputsOfResult(result, promised);
  checkComplete(request.outputs, found, promised);
  const wanted = request.outputs ?? [...found.keys()].map((name) => ({ name, binary: request.binary }));
  const parts: Buffer[] = [];
  const outputs = wanted.map((output) => {
    const { name } = output;
    return written(
      output,
      tensorOf(
        found.get(name),
        name,
        promised.find((one) => one.name === name),
      ),
      parts,
    );
  });
  const id = request.id === undefined ? '' : `"id":${JSON.stringify(request.id)},`;
  const names = `"model_name":${JSON.stringify(model)},"model_version":${JSON.stringify(VERSION)}`;
  const json = Buffer.from(`{${id}${names},"outputs":[${outputs.join()}]}`);
  if (parts.length === 0) return { body: json, jsonLength: null };
  return { body: Buffer.concat([json, ...parts]), jsonLength: json.length };
}

/** Makes an answer without tensors. Some clients know JSON only by its bare type. */
export function jsonAnswer(value: object): AnswerBody {
  return { contentType: JSON_TYPE, body: JSON.stringify(value), nosniff: true };
}

/** Returns the JSON text of an output. Adds its bytes to `parts` if they go behind the JSON. */
function written({ name, binary }: WantedOutput, { data, dims, type }: Tensor, parts: Buffer[]): string {
  const datatype = datatypeOf(type);
  if (!datatype) throw unfit(name, `has elements of type ${type}`);
  const head = `"name":${JSON.stringify(name)},"datatype":"${datatype.name}","shape":${JSON.stringify(dims)}`;
  if (!binary) return `{${head},"data":${datatype.toJson(data)}}`;
  const bytes = datatype.toBytes(data);
  parts.push(bytes);
  return `{${head},"parameters":{"binary_data_size":${bytes.length}}}`;
}

/** @throws ModeletError if an output is missing */
function checkComplete(
  wanted: readonly WantedOutput[] | null,
  found: ReadonlyMap<string, unknown>,
  promised: readonly PromisedOutput[],
): void {
  const needed = wanted ?? promised.filter(({ isOptional }) => !isOptional);
  const missing = needed.map(({ name }) => name).filter((name) => !found.has(name));
  if (missing.length === 0) return;
  const unknown = missing.find((name) => !promised.some((output) => output.name === name));
  if (unknown === undefined)
    throw new ModeletError('modelet_failed', `the result lacks outputs that the model promises: ${listed(missing)}`);
  const names = new Set([...promised.map(({ name }) => name), ...found.keys()]);
  throw new ModeletError(
    'bad_request',
    `there is no output ${JSON.stringify(unknown)}; the outputs are ${listed([...names])}`,
  );
}

function listed(names: readonly string[]): string {
  return names.map((name) => JSON.stringify(name)).join(', ');
}
