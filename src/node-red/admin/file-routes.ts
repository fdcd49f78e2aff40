/**
 * Answers the dialog of a stage about files: where a path leads, which files there are, a new file, and the inputs and outputs
 * of an ONNX model. A path typed by a user makes this machine open a file. So the file, with all links resolved, must lie below
 * the folders in which relative paths are looked up. A model may also be that of a deployed stage, which its workers have open
 * anyway.
 */
import type { Request, RequestHandler, Response } from 'express';
import type { NodeAPI } from 'node-red';
import {
  createFlowFile,
  FileError,
  type FileRefusal,
  listFolder,
  whyNotCreated,
} from '../../config/files/flow-files.ts';
import { baseFolder, isFileOfFlows, modulesFolder, resolveModeletFile } from '../../config/folders.ts';
import { TASK_NAMES, type TaskName } from '../../config/stage-source.ts';
import { hubModelIn, hubText, parseHubName } from '../../config/tasks/hub-model.ts';
import { lookIntoFolder } from '../../config/tasks/model-folder.ts';
import { asError, ModeletError } from '../../core/errors.ts';
import { inspectOnnx } from '../../runtime/service/inspect-onnx.ts';
import type { Pipeline } from '../pipeline.ts';

interface OnnxAnswer {
  readonly status: number;
  readonly body: object;
}

const STATUS: Readonly<Record<FileRefusal, number>> = {
  ending: 400,
  'no-folder': 400,
  outside: 403,
  exists: 409,
};

export function serveFiles(
  RED: NodeAPI,
  pipeline: Pipeline,
  { mayRead, mayWrite }: Readonly<Record<'mayRead' | 'mayWrite', RequestHandler>>,
): void {
  // A new file is code, as a deploy brings it.
  const mayDeploy = RED.auth.needsPermission('flows.write');

  RED.httpAdmin.get('/modelets/resolve', mayRead, (request, response) => {
    const path = String(request.query['path'] ?? '');
    try {
      response.json({ ...resolved(RED, path, request.query), exists: true });
    } catch (thrown) {
      const isCreatable = whyNotCreated(RED.settings, path, String(request.query['source'])) === null;
      const { message: error } = thrown as Error;
      const hub = parseHubName(path);
      const more = hub === null ? {} : { hub: hubText(hub) };
      response.json({ path, exists: false, error, base: baseFolder(RED.settings), isCreatable, ...more });
    }
  });

  RED.httpAdmin.get('/modelets/files', mayWrite, (request, response) => {
    const { folder = '', source = '' } = request.query;
    listFolder(RED.settings, String(folder), String(source)).then(
      (listing) => response.json(listing),
      (thrown: unknown) => refuse(response, thrown),
    );
  });

  RED.httpAdmin.post('/modelets/files', mayDeploy, (request, response) => {
    const { path = '', source = '', predict = '' } = (request.body ?? {}) as Readonly<Record<string, unknown>>;
    try {
      const file = createFlowFile(RED.settings, String(path), String(source), String(predict));
      RED.log.info(`[modelets] created ${file}`);
      response.status(201).json({ path: file });
    } catch (thrown) {
      refuse(response, thrown);
    }
  });

  RED.httpAdmin.get('/modelets/onnx', mayWrite, (request, response) => {
    const gone = new AbortController();
    response.on('close', () => gone.abort());
    const answer = ({ status, body }: OnnxAnswer): void => void response.status(status).json(body);
    inspect(RED, pipeline, String(request.query['path'] ?? ''), gone.signal).then(answer, (thrown: unknown) =>
      answer(failed(asError(thrown))),
    );
  });
}

/** Returns the absolute path of a file, or of the folder of a known model, into which it looks if that may be read. */
function resolved(RED: NodeAPI, path: string, { task, precision = 'auto' }: Request['query']): object {
  if (!TASK_NAMES.includes(task as TaskName)) return { path: resolveModeletFile(RED.settings, path) };
  const folder = resolveModeletFile(RED.settings, path, 'model');
  const hub = hubModelIn(folder, path);
  if (hub !== null) return { ...lookIntoFolder(folder, task as TaskName, String(precision)), hub: hubText(hub) };
  return isFileOfFlows(RED.settings, folder)
    ? lookIntoFolder(folder, task as TaskName, String(precision))
    : { path: folder };
}

function refuse(response: Response, thrown: unknown): void {
  const { message: error } = asError(thrown);
  if (thrown instanceof FileError) response.status(STATUS[thrown.code]).json({ code: thrown.code, error });
  else response.status(500).json({ code: 'failed', error });
}

async function inspect(RED: NodeAPI, pipeline: Pipeline, path: string, gone: AbortSignal): Promise<OnnxAnswer> {
  const file = resolveModeletFile(RED.settings, path);
  if (!isFileOfFlows(RED.settings, file) && !isDeployed(pipeline, file)) return { status: 403, body: outside(file) };
  return { status: 200, body: await inspectOnnx(file, modulesFolder(RED.settings), gone) };
}

function isDeployed({ live }: Pipeline, file: string): boolean {
  return live.allSettings('stage').some(([, { source }]) => source.kind === 'onnx' && source.path === file);
}

/** Returns the refusal of a file outside the folders. Stages may still run such a file. */
function outside(file: string): object {
  const where = 'it lies outside fileWorkingDirectory, the project and the user directory';
  return { error: `${file} is not looked into before it is deployed: ${where}` };
}

/** Answers 200 with the error for an unreadable model; a `ModeletError`, such as a full queue, keeps its own status. */
function failed(error: Error): OnnxAnswer {
  return { status: error instanceof ModeletError ? error.statusCode : 200, body: { error: error.message } };
}
