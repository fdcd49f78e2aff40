/**
 * ONNX's own backend node tests: each case passes, or is listed with its reason. Only the long form runs them: the package
 * `onnx`, which has them, is among those that `npm run recipes` installs.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { parseOnnxOptions } from '../../src/config/onnx-options.ts';
import { fromHalfBits } from '../../src/core/float16.ts';
import type { Tensor } from '../../src/core/tensor.ts';
import { loadOnnx } from '../../src/runtime/worker/sources/onnx.ts';
import { folderFor } from '../fixtures/folder.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { context, definition } from '../worker/rig.ts';
import { PACKAGES, withoutPackages } from './packages.ts';

/** A tensor with its bytes in Base64, or the kind of another value. */
type Written = string | { readonly type: string; readonly dims: readonly number[]; readonly data: string | string[] };

interface Case {
  readonly name: string;
  readonly model: string;
  readonly inputs: readonly (readonly [name: string, value: Written])[];
  readonly outputs: readonly (readonly [name: string, value: Written])[];
  readonly rtol: number;
  readonly atol: number;
}

const ARRAYS: Readonly<Record<string, new (bytes: ArrayBuffer) => ArrayLike<unknown>>> = {
  ...{ float32: Float32Array, float64: Float64Array, float16: Uint16Array, bool: Uint8Array },
  ...{ int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array },
  ...{ uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array },
};

/** Why a case cannot pass, by the message of its failure. */
const REASONS: Readonly<Record<string, RegExp>> = {
  'onnxruntime-node takes and returns no sequences, maps and optional values': /is a sequence, a map or optional/,
  'the type of an input or output is not supported': /has the type \w+, which is not supported|^a value is a/,
  'the installed onnxruntime is older than the opset': /^the model needs opset|^the model file has IR version/,
  'onnxruntime has no such operator, or not for this type':
    /not a registered function|Could not find an implementation|Failed to find kernel|This is an invalid model|Type Error/,
  'onnxruntime cannot run the operator with these options': /Exception during initialization|Non-zero status code/,
};

/** Cases whose results differ from those of ONNX: onnxruntime gives them, in Python too. */
const OTHER_RESULTS =
  /^test_(dft|stft|training_dropout|maxunpool_export_with_output_shape|attention_4d_causal_fp16$|resize_downsample_scales_(linear|cubic)_align_corners)/;

async function* cases(): AsyncGenerator<Case> {
  const script = join(repositoryRoot, 'test', 'docs', 'recipes', 'onnx_cases.py');
  const child = spawn(join(PACKAGES, 'venv', 'bin', 'python'), [script], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  for await (const line of createInterface({ input: child.stdout })) yield JSON.parse(line) as Case;
  assert.deepEqual((await ended)[0], 0);
}

function read(value: Written): Tensor {
  if (typeof value === 'string') throw new Error(`a value is a ${value}`);
  const { type, dims, data } = value;
  if (typeof data !== 'string') return { type, dims, data };
  const elements = new (ARRAYS[type] as (typeof ARRAYS)[string])(Uint8Array.from(Buffer.from(data, 'base64')).buffer);
  return { type, dims, data: type === 'float16' ? fromHalfBits(elements as Uint16Array) : elements };
}

/** @throws Error with the reason if the case does not pass */
async function check({ model, inputs, outputs, rtol, atol }: Case, folder: string): Promise<void> {
  const path = join(folder, 'model.onnx');
  writeFileSync(path, Buffer.from(model, 'base64'));
  const source = { kind: 'onnx', path, options: parseOnnxOptions({ tensors: true }), soleWorker: false } as const;
  const loaded = await loadOnnx(source, definition({ source, requireFrom: repositoryRoot }), context());
  try {
    const input = Object.fromEntries(inputs.map(([name, value]) => [name, read(value)]));
    const [result] = (await loaded.predict([loaded.preprocess?.(input, context())], [], context())) as unknown[];
    if (result instanceof Error) throw result;
    for (const [name, value] of outputs) {
      const given = (outputs.length === 1 ? result : (result as Record<string, unknown>)[name]) as Tensor;
      mustBeLike(given, read(value), { rtol, atol });
    }
  } finally {
    await loaded.teardown();
  }
}

function mustBeLike(given: Tensor, wanted: Tensor, { rtol, atol }: Pick<Case, 'rtol' | 'atol'>): void {
  assert.deepEqual([given.type, given.dims], [wanted.type, wanted.dims], 'type or shape');
  for (const [index, element] of Array.from(wanted.data).entries()) {
    const other = given.data[index];
    const most = Math.max(atol, 1e-7) + rtol * Math.abs(Number(element));
    const isLike = Object.is(element, other) || element === other || Math.abs(Number(element) - Number(other)) <= most;
    if (!isLike) throw new Error(`element ${index} is ${String(other)} instead of ${String(element)}`);
  }
}

const skip = process.env['TEST_FULL'] === '1' ? withoutPackages() : 'the long form only: npm run test:full';

test("ONNX's own node tests pass, or have a reason", { skip }, async (t) => {
  const folder = folderFor(t);
  const failures: Record<string, string> = {};
  let passed = 0;
  for await (const one of cases()) {
    try {
      await check(one, folder);
      passed += 1;
    } catch (thrown) {
      const { message } = thrown as Error;
      const isListed = Object.values(REASONS).some((reason) => reason.test(message)) || OTHER_RESULTS.test(one.name);
      if (!isListed) failures[one.name] = message;
    }
  }
  assert.deepEqual(failures, {});
  assert.ok(passed >= LEAST_PASSED, `${passed} pass`);
});

/** There are 1,884 with onnx 1.23.2 and onnxruntime 1.30. Python's runtime passes 23 more, all with sequences. */
const LEAST_PASSED = 1350;
