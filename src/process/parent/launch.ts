/**
 * Starts child processes: pinned to cores, killed by the kernel when their parent dies, with a channel on
 * descriptor 3. The only file that starts processes.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { readlinkSync } from 'node:fs';
import { basename } from 'node:path';
import { promisify } from 'node:util';
import { formatCpus } from '../../config/pins.ts';
import { asError } from '../../core/errors.ts';
import { allowedCpus } from '../affinity.ts';
import { inheritedEnvironment } from '../node-options.ts';
import { inSearchPath } from '../search-path.ts';

const run = promisify(execFile);

/** Which of the two launch helpers work on this machine. Both are found by trying, not by name: BusyBox has other options. */
export interface Launcher {
  /** `setpriv --pdeathsig`: a worker that spins in synchronous code notices no closed channel. */
  readonly setpriv: boolean;
  /** `taskset -c`: start under a CPU mask, so that threads of native libraries inherit it. */
  readonly taskset: boolean;
}

/**
 * A launch helper by its absolute path, found in the PATH of this process: that of a child is the user's, for the child
 * alone. By its bare name where it is not found.
 */
export function helper(name: keyof Launcher): string {
  return inSearchPath(name, process.env['PATH'] ?? '') ?? name;
}

const setpriv = (): string[] => [helper('setpriv'), '--pdeathsig', 'KILL', '--'];
const taskset = (cpus: readonly number[]): string[] => [helper('taskset'), '-c', formatCpus(cpus)];

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
 * Runs a command that ends by itself and gives what it wrote to its output.
 * @throws Error where it fails, or is not through in time and so killed.
 */
export async function runToEnd(command: readonly string[], timeoutMs: number): Promise<string> {
  const options = { timeout: timeoutMs, killSignal: 'SIGKILL', env: inheritedEnvironment() } as const;
  const { stdout } = await run(command[0] as string, command.slice(1), options);
  return stdout;
}

export type LaunchedProcess = ChildProcess;

export interface LaunchSpec {
  /** Program and arguments. No shell reads them. */
  readonly command: readonly string[];
  /** Cores to run on; null where the platform has no pinning. */
  readonly cpus: readonly number[] | null;
  readonly launcher: Launcher;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** What this process has started and not seen to exit. */
const running: Set<number> = new Set();

/**
 * Starts the process in a group of its own: Ctrl-C in a terminal is for Node-RED, and a kill reaches the whole tree.
 * @throws Error where Node.js or the system refuses at once, as with an environment that is too large. Other failures
 * come as the event 'error'.
 */
export function launch(spec: LaunchSpec): LaunchedProcess {
  const command = [
    ...(spec.launcher.setpriv ? setpriv() : []),
    ...(spec.launcher.taskset && spec.cpus ? taskset(spec.cpus) : []),
    ...spec.command,
  ];
  const child = spawned(command, spec.env);
  const { pid } = child;
  if (pid !== undefined) {
    running.add(pid);
    child.once('exit', () => running.delete(pid));
  }
  return child;
}

function spawned(command: readonly string[], env: LaunchSpec['env']): LaunchedProcess {
  try {
    return spawn(command[0] as string, command.slice(1), {
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      detached: true,
      env,
    });
  } catch (thrown) {
    const { message } = asError(thrown);
    const why =
      (thrown as NodeJS.ErrnoException).code === 'E2BIG' ? `${message} (its environment is too large)` : message;
    throw new Error(`could not be started: ${why}`, { cause: thrown });
  }
}

/** Kills all that this process has started, and what that has started. */
export function killAll(): void {
  for (const pid of running) killTree(pid);
}

/** Kills a process that has not been seen to exit, and what it has started. */
export function killTree(pid: number): void {
  killGroup(pid);
  signal(pid);
}

/** Kills what an exited process has left behind. Its own number may be another process's by now. */
export function killGroup(pid: number): void {
  // To the system -1 means everybody.
  if (pid > 1) signal(-pid);
}

function signal(target: number): void {
  try {
    process.kill(target, 'SIGKILL');
  } catch {
    // Gone already, which is what was wanted.
  }
}

/** Moves all threads of a running process to `cpus`. */
export async function pinProcess(pid: number, cpus: readonly number[]): Promise<void> {
  await run(helper('taskset'), ['-acp', formatCpus(cpus), String(pid)], { timeout: 5000 });
}

/**
 * Moves the calling thread to `cpus`, and no other thread of its process. `taskset`: where that is, as the thread's own
 * environment is the user's, and not for it.
 */
export async function pinThread(cpus: readonly number[], taskset: string): Promise<void> {
  const wanted = formatCpus(cpus);
  if (formatCpus(allowedCpus('thread-self')) === wanted) return;
  // Linux knows each thread by a number. Read without a promise, which another thread would serve with its own number.
  const thread = basename(readlinkSync('/proc/thread-self'));
  await run(taskset, ['-cp', wanted, thread], { timeout: 5000, env: {} });
}
