/** Installs the requirements.txt beside each Python file of a runtime, before the runtime starts. */
import { userFolder } from '../config/folders.ts';
import type { Log } from '../observe/log/log.ts';
import { type Installation, Installer, type InstallPlan } from '../runtime/service/install/installation.ts';
import { planRequirements } from '../runtime/service/install/python-packages.ts';
import type { HeadlessFlows } from './compile-flows.ts';

type FailedInstallation = Extract<Installation, { state: 'failed' }>;

const REASONS: Readonly<Record<FailedInstallation['code'], string>> = {
  offline: 'the package registry cannot be reached',
  timed_out: 'it took longer than 15 minutes',
  no_venv: 'this Python cannot make virtual environments; Debian and Ubuntu have them in the package python3-venv',
  failed: 'the installer reports an error',
};

/** @throws Error that names the stage whose requirements cannot be installed */
export async function installRequirements(flows: HeadlessFlows, runtime: string, log: Log): Promise<void> {
  const installer = new Installer();
  for (const [stage, plan] of plansOf(flows, runtime)) {
    log.write({ level: 'info', message: `installs ${plan.what} of ${plan.cwd}`, stage });
    const ended = await installer.run(plan);
    if (ended.state === 'failed') throw notInstalled(stage, ended);
  }
}

/** Returns what to install, with the name of a stage that needs it. Files in one folder share its environment. */
function plansOf({ source, nodes }: HeadlessFlows, runtime: string): Iterable<readonly [stage: string, InstallPlan]> {
  const plans = new Map<string, readonly [string, InstallPlan]>();
  for (const [id, config] of nodes.allSettings('stage')) {
    if (config.runtime !== runtime || config.source.kind !== 'python') continue;
    const plan = planRequirements(config.source, userFolder(source.settings));
    if (plan) plans.set(JSON.stringify(plan), [config.name || id, plan]);
  }
  return plans.values();
}

function notInstalled(stage: string, { what, code, output }: FailedInstallation): Error {
  return new Error(`${what} of the stage ${stage} is not installed: ${REASONS[code]}\n${output.trim()}`);
}
