/**
 * Tests and measures a stage from its dialog, with the settings as they stand there, deployed or not. It runs the code of any
 * user who asks, as a deploy would; so it needs the permission to deploy.
 */
import { fileURLToPath, pathToFileURL } from 'node:url';
import { inspect } from 'node:util';
import type { Request, Response } from 'express';
import type { NodeAPI } from 'node-red';
import type { StageConfig } from '../../config/compile-stage.ts';
import { inLabels } from '../../config/configure.ts';
import { modulesFolder, userFolder } from '../../config/folders.ts';
import { MOST_WORKERS } from '../../config/formats/workers.ts';
import { batcher } from '../../config/schemas/batcher.ts';
import type { LookUp, Raw } from '../../config/validate.ts';
import { asModeletError, ModeletError } from '../../core/errors.ts';
import { BYTES_PER_MB, type Payload } from '../../core/model.ts';
import type { StageRuns } from '../../core/queues/sizing.ts';
import { nameStages } from '../../flow/names.ts';
import { planModelet } from '../../flow/plan.ts';
import { useOf } from '../../flow/read/graph-reader.ts';
import { readBody } from '../../http/body.ts';
import { mediaTypeOf } from '../../http/request-head.ts';
import { jsonable } from '../../http/values/conversion.ts';
import { placeIn } from '../../observe/log/failures.ts';
import { encodeInput, LARGEST_FILE, type TrialReport, type TrialSpec } from '../../runtime/service/trial/trial.ts';
import { CODEC, decodePayload } from '../../wire/codec/codec.ts';
import { parseJsonText } from '../../wire/codec/json-text.ts';
import { compileStageIn } from '../live-nodes.ts';
import type { Pipeline } from '../pipeline.ts';
import { drawPicture } from '../view/drawn-picture.ts';

/**
 * The properties of the stage as the dialog has them, and its sample; without a sample, the modelet's own example. A sample
 * that is a file is a Buffer.
 */
interface TrialRequest {
  readonly stage?: Raw;
  readonly sample?: unknown;
}

/** `null` and absent limits are those of the command `measure`. */
interface MeasureRequest extends TrialRequest {
  readonly maxBatchSize?: unknown;
  readonly maxWorkers?: unknown;
}

/** Longest text of a result. */
const LONGEST_RESULT = 65_536;
/** Most bytes of the settings before a file. */
const LONGEST_SETTINGS = 1024 * 1024;
/** Width in px at which the dialog shows a picture. */
const PICTURE_WIDTH = 300;
/** Errors of the question itself. All others are what the test has found, and are its answer. */
const REFUSALS: ReadonlySet<string> = new Set(['capacity_exceeded', 'payload_too_large', 'bad_request']);
/** The tabs of inline code, by the names that its stacks have. */
const TABS: Readonly<Record<string, string>> = { 'On Start': 'setup', Predict: 'code', 'On Stop': 'teardown' };
/** The code of workers, as stacks name it. */
const WORKER = fileURLToPath(new URL('../../runtime/worker/', import.meta.url));

export function serveTrials(RED: NodeAPI, pipeline: Pipeline): void {
  const mayDeploy = RED.auth.needsPermission('flows.write');

  RED.httpAdmin.post('/modelets/stages/test', mayDeploy, (request, response) => {
    const gone = goneWith(response);
    const answered = askedIn(request, gone).then((asked) => test(RED, pipeline, asked, gone));
    answered.then(
      (answer) => response.json(answer),
      (thrown: unknown) => fail(response, thrown),
    );
  });

  /** Answers with lines of JSON: how far it is, and at last the result. It ends with the connection. */
  RED.httpAdmin.post('/modelets/stages/measure', mayDeploy, (request, response) => {
    const gone = goneWith(response);
    const tell = (line: object): void => {
      if (!response.headersSent) response.type('application/jsonl');
      response.write(`${JSON.stringify(line)}\n`);
    };
    const measured = askedIn(request, gone).then((asked) => measure(RED, pipeline, asked, { gone, tell }));
    measured.then(
      (runs) => response.end(`${JSON.stringify({ ok: true, ...runs })}\n`),
      (thrown: unknown) => fail(response, thrown),
    );
  });

  RED.httpAdmin.get('/modelets/stages/:id/input', mayDeploy, (request, response) => {
    lastSample(pipeline, String(request.params['id'])).then(
      (sample) => (sample === undefined ? response.status(404).end() : response.json({ sample })),
      // It has no form in JSON.
      () => response.status(404).end(),
    );
  });
}

function goneWith(response: Response): AbortSignal {
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  return gone.signal;
}

/** Answers with an error, as the last line of an answer that has begun. */
function fail(response: Response, thrown: unknown): void {
  const error = inLabels('modelet-stage', asModeletError(thrown, 'config_invalid'));
  const answer = { ok: false, error: viewOf(error) };
  if (response.headersSent) {
    response.end(`${JSON.stringify(answer)}\n`);
    return;
  }
  if (error.retryAfterSeconds) response.set('Retry-After', String(error.retryAfterSeconds));
  response.status(REFUSALS.has(error.code) ? error.statusCode : 200).json(answer);
}

/** Reads JSON, or a line of JSON with the bytes of a file behind it. @throws ModeletError for anything else, or a large file */
async function askedIn(request: Request, gone: AbortSignal): Promise<MeasureRequest> {
  if (mediaTypeOf(request.headers['content-type'] ?? '') !== 'application/octet-stream') return request.body ?? {};
  const body = await new Promise<Buffer>((resolve, reject) => {
    const stop = readBody(
      request,
      { coding: 'identity', length: null, most: LARGEST_FILE + LONGEST_SETTINGS },
      {
        onBody: ({ bytes }) => resolve(bytes),
        onTooLarge: () => reject(new ModeletError('payload_too_large', 'the file is larger than 16 MB')),
        onMalformed: reject,
      },
    );
    gone.addEventListener('abort', stop);
  });
  const end = body.indexOf('\n');
  const head: unknown = parseJsonText(body.subarray(0, Math.max(0, end)));
  return { ...(head as TrialRequest), sample: body.subarray(end + 1) };
}

/** Returns the last input of a deployed stage in a form that JSON can hold, or undefined. */
async function lastSample({ deployment }: Pipeline, stage: string): Promise<unknown> {
  const payload = await deployment.routes.get(stage)?.service.lastInput(stage);
  return payload ? jsonable(decodePayload(payload)) : undefined;
}

async function test(RED: NodeAPI, pipeline: Pipeline, asked: TrialRequest, gone: AbortSignal): Promise<object> {
  const { id, config, spec } = stageIn(RED, asked);
  const report = await pipeline.trials.run({ ...spec, runTimeoutMs: config.runTimeoutMs }, pipeline.machine, gone);
  const use = useOf(config);
  const costs = pipeline.deployment.routes.get(id)?.whole?.costs.reading ?? null;
  const drawing = await drawingOf(asked.sample, report);
  return { ...answerOf(report, spec.stage), drawing, wholeMessages: use && { why: use.why, costs } };
}

async function measure(
  RED: NodeAPI,
  { trials, machine }: Pipeline,
  asked: MeasureRequest,
  { gone, tell }: { readonly gone: AbortSignal; readonly tell: (line: object) => void },
): Promise<StageRuns> {
  const { spec } = stageIn(RED, asked);
  const maxBatchSize = limitOf('maxBatchSize', asked.maxBatchSize, batcher.properties.maxBatchSize.maximum);
  const maxWorkers = limitOf('maxWorkers', asked.maxWorkers, MOST_WORKERS);
  return trials.measure({ ...spec, maxBatchSize, maxWorkers }, machine, gone, (progress) => tell({ progress }));
}

/** @throws ModeletError `bad_request` for anything but a whole number from 1 to `most`, or none */
function limitOf(name: string, value: unknown, most: number): number | null {
  if (value === undefined || value === null) return null;
  if (Number.isInteger(value) && Number(value) >= 1 && Number(value) <= most) return Number(value);
  throw new ModeletError('bad_request', `${name} must be a whole number from 1 to ${most}`);
}

/** @throws ModeletError if the settings of the dialog cannot be used, or its sample */
function stageIn(
  RED: NodeAPI,
  { stage, sample }: TrialRequest,
): {
  readonly id: string;
  readonly config: StageConfig;
  readonly spec: Pick<TrialSpec, 'stage' | 'modelet' | 'input'>;
} {
  if (stage === null || typeof stage !== 'object') throw new ModeletError('bad_request', 'the stage is missing');
  const id = String(stage['id'] ?? '');
  const lookUp = lookUpFor(RED, id, stage['z']);
  const config = compileStageIn(RED, withEnvironment(stage, lookUp), lookUp);
  const name = nameStages([{ node: { id: 'stage' }, config }]).names.get('stage') ?? '';
  const folders = { modules: modulesFolder(RED.settings), user: userFolder(RED.settings) };
  const input = sample === undefined ? null : encodeInput(withBuffers(sample));
  return { id, config, spec: { stage: name, modelet: planModelet(config, folders), input } };
}

/** Returns the variables of the node, or of its flow if the node is not deployed, or else of the process. */
function lookUpFor(RED: NodeAPI, id: string, z: unknown): LookUp {
  let node = RED.nodes.getNode(id);
  if (!node) {
    RED.nodes.eachNode((definition) => {
      if (definition['z'] === z) node ??= RED.nodes.getNode(definition.id);
    });
  }
  return (name) => RED.util.getSetting(node, name);
}

/** Replaces properties that are a variable as a whole, as Node-RED does before it makes a node. */
function withEnvironment(stage: Raw, lookUp: LookUp): Raw {
  return Object.fromEntries(
    Object.entries(stage).map(([key, value]) => {
      const name = typeof value === 'string' ? /^\$\{(\S+)\}$/.exec(value)?.[1] : undefined;
      return [key, name === undefined ? value : (lookUp(name) ?? value)];
    }),
  );
}

/** Restores Buffers from the form that JSON gives them. */
function withBuffers(value: unknown): unknown {
  if (value === null || typeof value !== 'object' || Buffer.isBuffer(value)) return value;
  const { type, data } = value as { type?: unknown; data?: unknown };
  if (type === 'Buffer' && Array.isArray(data)) return Buffer.from(data as number[]);
  if (Array.isArray(value)) return value.map(withBuffers);
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, withBuffers(part)]));
}

/** Returns the sample with the result drawn over it, as SVG; null if the sample is no picture, or there is no result. */
async function drawingOf(sample: unknown, { outcome }: TrialReport): Promise<string | null> {
  if (!outcome.ok || sample === undefined) return null;
  const limits = { maxMb: LARGEST_FILE / BYTES_PER_MB, shownWidth: PICTURE_WIDTH };
  const drawn = drawPicture(withBuffers(sample), decodePayload(outcome.result), limits);
  return drawn.then(
    ({ svg }) => svg,
    () => null,
  );
}

function answerOf({ outcome, ...rest }: TrialReport, stage: string): object {
  if (!outcome.ok) return { ok: false, error: viewOf(outcome.error, stage), ...rest };
  return { ok: true, result: shown(outcome.result), ...rest };
}

/** Returns JSON laid out, or for values that JSON would change, what the console prints of them. */
function shown(payload: Payload): string {
  const value = decodePayload(payload);
  const text =
    payload.codec === CODEC.json
      ? JSON.stringify(value, null, 2)
      : inspect(value, { depth: 8, maxArrayLength: 200, maxStringLength: LONGEST_RESULT, breakLength: 100 });
  return text.length > LONGEST_RESULT
    ? `${text.slice(0, LONGEST_RESULT)}\n... (${payload.bytes.byteLength} bytes)`
    : text;
}

/** `stage`: name of the stage, by which its inline code is found in stacks. */
function viewOf(error: ModeletError, stage?: string): object {
  const { code, message } = error;
  // An error without a cause is this package's own, and its stack does not help the author of a modelet.
  const stack = (error.cause instanceof Error && error.stack) || '';
  const lines = stack.split('\n');
  const ours = lines.findIndex((line) => line.includes(WORKER) || line.includes(pathToFileURL(WORKER).href));
  const place = stage === undefined ? null : placeOf(stack, stage);
  return { code, message, stack: (ours < 0 ? lines : lines.slice(0, ours)).join('\n'), place };
}

/** Returns the place in the inline code of an error: that of its syntax, or the innermost that its stack names. */
function placeOf(stack: string, stage: string): object | null {
  const name = stage.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const syntax = new RegExp(`${name}: ((?:On Start|Predict|On Stop):\\d+(?::\\d+)?)`).exec(stack)?.[1];
  const [tab = '', line, column] = (syntax ?? placeIn(stack) ?? '').split(':');
  return line === undefined ? null : { property: TABS[tab], tab, line: Number(line), column: Number(column ?? 1) };
}
