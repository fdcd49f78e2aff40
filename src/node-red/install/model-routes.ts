/**
 * Known models from hubs, for the dialogs: which files a stage needs, their download, and the models on the disk. The settings
 * that forbid Node-RED to install nodes or modules forbid downloads, too.
 */
import type { RequestHandler, Response } from 'express';
import type { NodeAPI } from 'node-red';
import { TASK_NAMES, type TaskName } from '../../config/stage-source.ts';
import { hubText, parseHubName } from '../../config/tasks/hub-model.ts';
import { asError } from '../../core/errors.ts';
import type { WantedModel } from '../../runtime/service/models/downloads.ts';
import { DownloadError } from '../../runtime/service/models/hub.ts';
import { type InstallSettings, whyRefused } from './install-route.ts';
import type { StageModels } from './stage-models.ts';

/** The value of a password's field that the user has not changed. */
const UNCHANGED = '__PWRD__';

export function serveModels(RED: NodeAPI, models: StageModels, mayWrite: RequestHandler): void {
  const { downloads } = models;
  const refused = (): string | null => whyRefused(RED.settings as InstallSettings);

  /** POST, because the body may have a token. */
  RED.httpAdmin.post('/modelets/models/look', mayWrite, (request, response) => {
    const wanted = wantedOf(RED, request.body);
    if (!wanted) return void badRequest(response);
    answer(response, async () => {
      const { files, bytes } = await downloads.look(wanted);
      const listed = files.map(({ name, size }) => ({ name, size }));
      return { files: listed, bytes, refused: refused(), download: downloads.viewOf(hubText(wanted.model)) };
    });
  });

  RED.httpAdmin.post('/modelets/models', mayWrite, (request, response) => {
    const wanted = wantedOf(RED, request.body);
    const setting = refused();
    if (!wanted) return void badRequest(response);
    if (setting !== null) {
      const error = `the settings of Node-RED forbid it: ${setting}`;
      return void response.status(403).json({ code: 'not_allowed', error });
    }
    answer(response, async () => {
      const view = await downloads.start(wanted);
      RED.log.info(`[modelets] downloads ${view.model}`);
      return view;
    });
  });

  /** Asked again and again while a download runs: asks no hub. */
  RED.httpAdmin.get('/modelets/models/download', mayWrite, (request, response) => {
    response.json(downloads.viewOf(String(request.query['model'])) ?? { state: 'none' });
  });

  RED.httpAdmin.delete('/modelets/models/download', mayWrite, (request, response) => {
    response.status(downloads.cancel(String(request.query['model'])) ? 204 : 404).end();
  });

  RED.httpAdmin.get('/modelets/models', mayWrite, (_request, response) => {
    answer(response, async () => {
      const { folder, maxBytes } = downloads.cache;
      const held = await downloads.cache.list();
      const list = held.map((model) => ({ ...model, stages: [...models.stagesOf(model.model).values()] }));
      return { folder, maxBytes, models: list };
    });
  });

  RED.httpAdmin.delete('/modelets/models/:folder', mayWrite, (request, response) => {
    answer(response, async () => {
      const folder = String(request.params['folder']);
      const found = (await downloads.cache.list()).find((model) => model.folder === folder);
      const { state } = (found && downloads.viewOf(found.model)) ?? {};
      if (!found) response.status(404).end();
      else if (models.stagesOf(found.model).size > 0)
        response.status(409).json({ code: 'used', error: `deployed stages use ${found.model}` });
      else if (state === 'running' || state === 'waiting')
        response.status(409).json({ code: 'busy', error: `${found.model} is on its way: cancel its download` });
      else {
        await downloads.cache.remove(folder);
        RED.log.info(`[modelets] removed ${found.model}`);
        response.status(204).end();
      }
      return undefined;
    });
  });
}

/** Returns the model that a dialog asks for; null for an answer that says nothing of one. */
function wantedOf(RED: NodeAPI, body: unknown): WantedModel | null {
  const { model: text, task, precision = 'auto', token, runtime } = (body ?? {}) as Readonly<Record<string, unknown>>;
  const model = parseHubName(String(text).trim());
  if (model === null || !TASK_NAMES.includes(task as TaskName)) return null;
  const kept = RED.nodes.getCredentials(String(runtime)) as { readonly token?: string } | null | undefined;
  const own = typeof token === 'string' && token !== UNCHANGED ? token : (kept?.token ?? '');
  return { model, task: task as TaskName, precision: String(precision), token: own.trim() };
}

function badRequest(response: Response): void {
  response
    .status(400)
    .json({ code: 'failed', error: 'model must be OWNER/MODEL or OWNER/MODEL@REVISION, and task a task' });
}

/** A failure at a hub is an answer for the dialog, not a failure of the route. */
function answer(response: Response, work: () => Promise<object | undefined>): void {
  work().then(
    (body) => {
      if (body) response.json(body);
    },
    (thrown: unknown) => {
      const { message: error } = asError(thrown);
      if (thrown instanceof DownloadError) response.json({ state: 'failed', code: thrown.code, error });
      else response.status(500).json({ code: 'failed', error });
    },
  );
}
