/**
 * Starts child processes: pinned to cores, killed by the kernel when their parent dies, and with a channel on file
 * descriptor 3. No other file starts children; `affinity.ts` only runs `taskset`.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { formatCpus } from '../../config/formats/pins.ts';
import { asError } from '../../core/errors.ts';
import { inheritedEnvironment } from '../node-options.ts';
import { programPath } from '../search-path.ts';
import { descendantsOf, kill, killMarked, marked } from './family.ts';

const run = promisify(execFile);

/**
 * The launch helpers that work on this machine. `probeLauncher` runs each helper, because the BusyBox programs of the
 * same name have other options.
 */
export interface Launcher {
  /** `setpriv --pdeathsig`: kills a child with its parent, even in a busy loop that notices no closed channel. */
  readonly setpriv: boolean;
  /** `taskset -c`: starts a process with a CPU mask, so that threads of native libraries inherit the mask. */
  readonly taskset: boolean;
}

const setpriv = (): string[] => [programPath('setpriv'), '--pdeathsig', 'KILL', '--'];
const taskset = (cpus: readonly number[]): string[] => [programPath('taskset'), '-c', formatCpus(cpus)];

/** Tries the launch helpers once with a harmless command. */
export async function probeLauncher(allowedCpus: readonly number[]): Promise<Launcher> {
  if (process.platform !== 'linux') return { setpriv: false, taskset: false };
  const [canSetpriv, canTaskset] = await Promise.all([
    works([...setpriv(), 'true']),
    allowedCpus.length === 0 ? false : works([...taskset(allowedCpus), 'true']),
  ]);
  return { setpriv: canSetpriv, taskset: canTaskset };
}

async function works(command: readonly string[]): Promise<boolean> {
  try {
    await run(command[0] as string, command.slice(1), { timeout: 5000 });
    return true;
  } catch {
    return false;
  }
}

/**
 * Runs a command that ends by itself and returns its stdout.
 * @throws Error if the command fails, or if it exceeds `timeoutMs` and is killed.
 */
export async function runToEnd(command: readonly string[], timeoutMs: number): Promise<string> {
  const options = { timeout: timeoutMs, killSignal: 'SIGKILL', env: inheritedEnvironment() } as const;
  const { stdout } = await run(command[0] as string, command.slice(1), options);
  return stdout;
}

export type LaunchedProcess = ChildProcess;

export interface LaunchSpec {
  /** Program and arguments; run without a shell. */
  readonly command: readonly string[];
  /** Cores to run on; null if the platform has no pinning. */
  readonly cpus: readonly number[] | null;
  readonly launcher: Launcher;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The folder to run in; absent: that of this process. */
  readonly cwd?: string | undefined;
  /** File descriptors of the slot files, which the process gets from number 4 on; absent: it gets none. */
  readonly slotsFds?: readonly number[] | undefined;
}

/** Marks of the processes that this process started and that have not exited, by their ids. */
const running: Map<number, string> = new Map();

/**
 * Starts a process in its own process group, so that Ctrl-C in a terminal reaches only Node-RED, and a kill reaches the
 * whole tree. When it exits, kills what it has started outside of its group.
 * @throws Error if Node.js or the system refuses at once, for example because the environment is too large. Other
 * failures arrive as the event 'error'.
 */
export function launch(spec: LaunchSpec): LaunchedProcess {
  const command = [
    ...(spec.launcher.setpriv ? setpriv() : []),
    ...(spec.launcher.taskset && spec.cpus ? taskset(spec.cpus) : []),
    ...spec.command,
  ];
  const { mark, env } = marked(spec.env);
  const child = spawned(command, { ...spec, env });
  const { pid } = child;
  if (pid !== undefined) {
    running.set(pid, mark);
    child.once('exit', () => {
      running.delete(pid);
      killMarked(mark);
    });
  }
  return child;
}

function spawned(command: readonly string[], { env, cwd, slotsFds = [] }: LaunchSpec): LaunchedProcess {
  try {
    return spawn(command[0] as string, command.slice(1), {
      stdio: ['ignore', 'pipe', 'pipe', 'pipe', ...slotsFds],
      detached: true,
      env,
      cwd,
    });
  } catch (thrown) {
    const { message } = asError(thrown);
    const why =
      (thrown as NodeJS.ErrnoException).code === 'E2BIG' ? `${message} (its environment is too large)` : message;
    throw new Error(`could not be started: ${why}`, { cause: thrown });
  }
}

/** Kills all processes that this process started, and their children. */
export function killAll(): void {
  for (const pid of running.keys()) killTree(pid);
}

/** Kills a process whose exit has not been seen, and its descendants. */
export function killTree(pid: number): void {
  const descendants = descendantsOf(pid);
  killGroup(pid);
  for (const each of [pid, ...descendants]) kill(each);
  const mark = running.get(pid);
  if (mark !== undefined) killMarked(mark);
}

/** Kills the children that an exited process left behind, but not its own id, which another process may have by now. */
export function killGroup(pid: number): void {
  // To the system, -1 means every process.
  if (pid > 1) kill(-pid);
}

/** How much larger than it is a worker looks to the kernel, in thousandths of the memory that all processes may use. */
const OOM_SCORE = 500;
const HIGHEST_OOM_SCORE = 1000;

/** Makes Linux, when memory is short, kill a worker, which costs its items, before the engine or Node-RED. */
export function diesFirst(pid: number | null): void {
  try {
    const own = Number(readFileSync('/proc/self/oom_score_adj', 'utf8'));
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(Math.min(HIGHEST_OOM_SCORE, own + OOM_SCORE)));
  } catch {
    // Another system, or one without /proc: the kernel chooses by size.
  }
}
