/**
 * Returns the inputs and outputs of an ONNX model to the dialog of a stage. A path typed by a user makes this machine
 * open a file. So the file, with all links resolved, must lie below the folders in which relative paths are looked up,
 * or be the model of a deployed stage, which its workers have open anyway.
 */
import type { RequestHandler } from 'express';
import type { NodeAPI } from 'node-red';
import { isFileOfFlows, modulesFolder, resolveModeletFile } from '../../config/folders.ts';
import { asError, ModeletError } from '../../core/errors.ts';
import { inspectOnnx } from '../../runtime/service/inspect-onnx.ts';
import type { Pipeline } from '../pipeline.ts';

interface OnnxAnswer {
  readonly status: number;
  readonly body: object;
}

export function serveOnnx(RED: NodeAPI, pipeline: Pipeline, mayWrite: RequestHandler): void {
  RED.httpAdmin.get('/modelets/onnx', mayWrite, (request, response) => {
    const gone = new AbortController();
    response.on('close', () => gone.abort());
    const answer = ({ status, body }: OnnxAnswer): void => void response.status(status).json(body);
    inspect(RED, pipeline, String(request.query['path'] ?? ''), gone.signal).then(answer, (thrown: unknown) =>
      answer(failed(asError(thrown))),
    );
  });
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
