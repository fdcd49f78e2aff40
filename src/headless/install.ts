/**
 * Brings what a runtime needs before it starts: the requirements.txt beside each Python file, the packages that stages list, and
 * known models from hubs.
 */
import { userFolder } from '../config/folders.ts';
import { type HubModel, parseHubName } from '../config/tasks/hub-model.ts';
import { isWholeModel } from '../config/tasks/model-folder.ts';
import type { Log } from '../observe/log/log.ts';
import { type Installation, Installer, type InstallPlan } from '../runtime/service/install/installation.ts';
import { lookAtPython, planPython, planRequirements } from '../runtime/service/install/python-packages.ts';
import { Downloads } from '../runtime/service/models/downloads.ts';
import { HUB_TOKEN } from '../runtime/service/models/hub.ts';
import type { HeadlessFlows } from './compile-flows.ts';

/** An installation, with the name of a stage that needs it. */
type NamedPlan = readonly [stage: string, InstallPlan];

type FailedInstallation = Extract<Installation, { state: 'failed' }>;

const REASONS: Readonly<Record<FailedInstallation['code'], string>> = {
  offline: 'the package registry cannot be reached',
  timed_out: 'it took longer than 15 minutes',
  no_venv: 'this Python cannot make virtual environments; Debian and Ubuntu have them in the package python3-venv',
  failed: 'the installer reports an error',
};

/** @throws Error that names the stage whose requirements or model cannot be had */
export async function install(flows: HeadlessFlows, runtime: string, log: Log): Promise<void> {
  await installRequirements(flows, runtime, log);
  await downloadModels(flows, runtime, log);
}

async function downloadModels({ source, nodes }: HeadlessFlows, runtime: string, log: Log): Promise<void> {
  const downloads = Downloads.of(source.settings);
  for (const [id, config] of nodes.allSettings('stage')) {
    if (config.runtime !== runtime || config.source.kind !== 'task' || config.source.hub === undefined) continue;
    const { hub, folder, task, precision } = config.source;
    if (isWholeModel(folder, task, precision)) continue;
    const stage = config.name || id;
    const wanted = { model: parseHubName(hub) as HubModel, task, precision, token: process.env[HUB_TOKEN] ?? '' };
    log.write({ level: 'info', message: `looks for the model ${hub}`, stage });
    const ended = await downloads
      .run(wanted)
      .catch((cause: Error) => ({ state: 'failed', error: cause.message }) as const);
    if (ended.state === 'failed') throw new Error(`the model of the stage ${stage} is not downloaded: ${ended.error}`);
  }
}

async function installRequirements(flows: HeadlessFlows, runtime: string, log: Log): Promise<void> {
  const installer = new Installer();
  // A file may bring an environment that the lists go into.
  for (const plansOf of [plansOfFiles, plansOfLists]) {
    for (const [stage, plan] of await plansOf(flows, runtime)) {
      const place = plan.cwd === undefined ? '' : ` of ${plan.cwd}`;
      log.write({ level: 'info', message: `installs ${plan.what}${place}`, stage });
      const ended = await installer.run(plan);
      if (ended.state === 'failed') throw notInstalled(stage, ended);
    }
  }
}

/** Returns what to install, with the name of a stage that needs it. Files in one folder share its environment. */
function plansOfFiles({ source, nodes }: HeadlessFlows, runtime: string): Iterable<NamedPlan> {
  const plans = new Map<string, NamedPlan>();
  for (const [id, config] of nodes.allSettings('stage')) {
    if (config.runtime !== runtime || config.source.kind !== 'python') continue;
    const plan = planRequirements(config.source, userFolder(source.settings));
    if (plan) plans.set(JSON.stringify(plan), [config.name || id, plan]);
  }
  return plans.values();
}

/** The same for code of the dialog. Stages with one interpreter share its environment: pip finds versions that suit all. */
async function plansOfLists({ source, nodes }: HeadlessFlows, runtime: string): Promise<NamedPlan[]> {
  const userDir = userFolder(source.settings);
  const stages = [...nodes.allSettings('stage')].flatMap(([id, config]) =>
    config.runtime === runtime && config.source.kind === 'python-code' && config.source.requirements.length > 0
      ? [{ name: config.name || id, ...config.source }]
      : [],
  );
  const plans = [...new Set(stages.map(({ python }) => python))].map(async (python): Promise<NamedPlan[]> => {
    const sharing = stages.filter((stage) => stage.python === python);
    const wanted = { path: '', python, requirements: [...new Set(sharing.flatMap((stage) => stage.requirements))] };
    const standing = await lookAtPython(wanted, userDir);
    const plan = standing.installable.length > 0 ? planPython(wanted, standing, userDir) : null;
    return plan ? [[sharing.map(({ name }) => name).join(', '), plan]] : [];
  });
  return (await Promise.all(plans)).flat();
}

function notInstalled(stage: string, { what, code, output }: FailedInstallation): Error {
  return new Error(`${what} of the stage ${stage} is not installed: ${REASONS[code]}\n${output.trim()}`);
}
