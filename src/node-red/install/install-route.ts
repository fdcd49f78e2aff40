/**
 * Tells the dialog of a stage whether the runtime of its source is there, an npm package or a Python with the packages of its
 * file, and installs it. The settings that forbid Node-RED to install nodes or modules forbid this, too.
 */
import type { RequestHandler } from 'express';
import type { NodeAPI } from 'node-red';
import { isFileOfFlows, modulesFolder, resolveModeletFile, userFolder } from '../../config/folders.ts';
import { parseRequirements } from '../../config/formats/module-names.ts';
import { TASK_NAMES } from '../../config/stage-source.ts';
import { TASKS } from '../../config/tasks/tasks.ts';
import { asError, ModeletError } from '../../core/errors.ts';
import { whyNoNativeBuild } from '../../process/native-builds.ts';
import { type Installation, Installer, type InstallPlan } from '../../runtime/service/install/installation.ts';
import {
  installedVersion,
  NPM_PACKAGES,
  type NpmPackage,
  planNpm,
} from '../../runtime/service/install/npm-packages.ts';
import {
  lookAtPython,
  type PythonStage,
  planPython,
  planRequirements,
} from '../../runtime/service/install/python-packages.ts';

/** Node-RED's settings about installing, as far as they count here. */
export interface InstallSettings {
  readonly externalModules?: {
    readonly modules?: {
      readonly allowInstall?: boolean;
      readonly allowList?: readonly string[];
      readonly denyList?: readonly string[];
    };
    readonly palette?: { readonly allowInstall?: boolean };
  };
  readonly editorTheme?: { readonly palette?: { readonly editable?: boolean } };
}

/** The state of a runtime, for the dialog. `plan`: how to install what is missing, if anything is and that is possible. */
interface InstallState {
  readonly found: string | null;
  readonly missing: readonly string[];
  /** Modules that a person has to install. */
  readonly unknown: readonly string[];
  readonly plan: InstallPlan | null;
  /** Why models run as WebAssembly on this machine, as a sentence; null or absent: they do not. */
  readonly unsuited?: string | null;
}

type Fields = Readonly<Record<string, unknown>>;

/** Gives new workers to stages that do not start, and to this one if it is deployed with this source; returns whether it is. */
type Restart = (stage: string, source: unknown) => boolean;

export function serveInstall(RED: NodeAPI, mayWrite: RequestHandler, restart: Restart): void {
  const installer = new Installer();
  /** Id of the stage that has new workers since the last installation. */
  let restarted: string | null = null;
  const installation = (): object => ({ ...installer.installation, restarted });

  RED.httpAdmin.get('/modelets/packages', mayWrite, (request, response) => {
    look(RED, request.query).then(
      ({ plan, ...standing }) => {
        const refused = plan ? whyRefused(RED.settings as InstallSettings, request.query) : null;
        // `what` names the packages on the button; blank without packages.
        response.json({ ...standing, what: plan?.what ?? '', refused, installation: installation() });
      },
      (thrown: unknown) => response.status(statusOf(thrown)).json({ error: asError(thrown).message }),
    );
  });

  /** Asked again and again while an installation runs: looks at nothing else. */
  RED.httpAdmin.get('/modelets/packages/installation', mayWrite, (_request, response) => {
    response.json(installation());
  });

  RED.httpAdmin.post('/modelets/packages', mayWrite, (request, response) => {
    const fields = (request.body ?? {}) as Fields;
    const refused = whyRefused(RED.settings as InstallSettings, fields);
    if (refused !== null) {
      response.status(403).json({ code: 'not_allowed', error: `the settings of Node-RED forbid it: ${refused}` });
      return;
    }
    const stage = String(fields['stage'] ?? '');
    const ended = ({ state }: Installation): void => {
      if (state === 'done' && restart(stage, fields['source'])) restarted = stage;
    };
    look(RED, fields).then(
      ({ plan }) => {
        if (!plan) response.status(409).json({ code: 'nothing', error: 'there is nothing to install' });
        else if (!installer.start(plan, ended))
          response.status(409).json({ code: 'busy', error: 'another installation runs' });
        else {
          restarted = null;
          RED.log.info(`[modelets] installs ${plan.what}`);
          response.status(202).json(installation());
        }
      },
      (thrown: unknown) => response.status(statusOf(thrown)).json({ code: 'failed', error: asError(thrown).message }),
    );
  });
}

function statusOf(thrown: unknown): number {
  // A Python that is missing is an answer for the dialog, not a failure of the route.
  return thrown instanceof ModeletError && thrown.code !== 'config_invalid' ? thrown.statusCode : 200;
}

async function look(RED: NodeAPI, fields: Fields): Promise<InstallState> {
  const userDir = userFolder(RED.settings);
  const needed = npmPackagesOf(fields);
  if (needed.length > 0) {
    const folders = [modulesFolder(RED.settings), import.meta.dirname];
    const versions = needed.map(({ name }) => [name, installedVersion(name, folders)] as const);
    const there = versions.filter(([, version]) => version !== null).map(([name, version]) => `${name} ${version}`);
    const found = there.length > 0 ? there.join(', ') : null;
    const missing = needed.filter((_, at) => versions[at]?.[1] === null);
    const unsuited = whyNoNativeBuild();
    if (missing.length === 0) return { found, missing: [], unknown: [], plan: null, unsuited };
    const plan = planNpm(missing, userDir, process.argv[1] ?? userDir);
    return { found, missing: missing.map(({ name }) => name), unknown: [], plan, unsuited };
  }
  if (fields['source'] !== 'python' && fields['source'] !== 'python-code')
    throw new ModeletError('bad_request', 'source must be onnx, task, python or python-code');
  const stage = pythonStage(RED, fields);
  const standing = await lookAtPython(stage, userDir);
  const { installable, unknown, version, interpreter } = standing;
  const found = `Python ${version}, ${interpreter}`;
  const requirements = stage.requirements ? null : planRequirements(stage, userDir);
  if (requirements) return { found, missing: [...installable, ...unknown], unknown: [], plan: requirements };
  const plan = installable.length > 0 ? planPython(stage, standing, userDir) : null;
  return { found, missing: installable, unknown, plan };
}

function npmPackagesOf({ source, takes, task }: Fields): readonly NpmPackage[] {
  const runtime = whyNoNativeBuild() === null ? NPM_PACKAGES.onnx : NPM_PACKAGES.wasm;
  if (source === 'onnx') return [runtime, ...(takes === 'picture' ? [NPM_PACKAGES.picture] : [])];
  if (source !== 'task') return [];
  const known = TASK_NAMES.find((name) => name === task);
  const hears = known !== undefined && TASKS[known].input === 'sound';
  return [NPM_PACKAGES.task, ...(hears ? [NPM_PACKAGES.sound] : [])];
}

/** @throws ModeletError `bad_request` for a list with anything but requirements. */
function pythonStage(RED: NodeAPI, fields: Fields): PythonStage {
  const python = String(fields['python'] ?? '').trim();
  if (fields['source'] === 'python') return { path: fileOf(RED, fields['path']), python };
  try {
    const listed: unknown = JSON.parse(String(fields['requirements'] ?? '[]'));
    return { path: '', python, requirements: parseRequirements((listed as unknown[]).map(String)) };
  } catch (thrown) {
    throw new ModeletError('bad_request', `requirements: ${asError(thrown).message}`);
  }
}

/** Returns the file of a stage if it may be read: as for ONNX models, a path that a user types must not open any file. */
function fileOf(RED: NodeAPI, path: unknown): string {
  try {
    const file = resolveModeletFile(RED.settings, String(path ?? ''));
    return isFileOfFlows(RED.settings, file) ? file : '';
  } catch {
    return '';
  }
}

/** Returns the setting that forbids to install what a stage needs, or a model; null if none does. */
export function whyRefused({ externalModules, editorTheme }: InstallSettings, stage: Fields = {}): string | null {
  const { modules, palette } = externalModules ?? {};
  if (modules?.allowInstall === false) return 'externalModules.modules.allowInstall';
  if (palette?.allowInstall === false) return 'externalModules.palette.allowInstall';
  if (editorTheme?.palette?.editable === false) return 'editorTheme.palette.editable';
  const isDenied = npmPackagesOf(stage).some(({ name }) => {
    const denied = weightOf(name, modules?.denyList ?? []);
    return denied >= 0 && denied >= weightOf(name, modules?.allowList ?? ['*']);
  });
  if (isDenied) return 'externalModules.modules.denyList';
  return null;
}

/** Returns how exactly a list of Node-RED's settings names the package, because the more exact list decides; -1: not at all. */
function weightOf(name: string, list: readonly string[]): number {
  const patterns = list.map((entry) => entry.replace(/(?<=.)@.*$/, ''));
  const matching = patterns.filter((pattern) =>
    new RegExp(`^${pattern.replaceAll(/[^\w*-]/g, '\\$&').replaceAll('*', '.*')}$`).test(name),
  );
  return Math.max(-1, ...matching.map((pattern) => (pattern.includes('*') ? pattern.indexOf('*') : name.length)));
}
