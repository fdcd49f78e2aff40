/**
 * Finds and kills what a launched process has started, also in other sessions (`detached`, `start_new_session`),
 * which a signal to the process group does not reach. Two traces lead to them in /proc: a mark in the environment, which
 * they inherit and keep when their parents have died, and the ids of the parents, for those that lost the mark.
 */
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';

/** Environment variable with the marks of a process and of all its ancestors that this package launched. */
const TREE = 'MODELET_PROCESS_TREE';
/** Looks at most this often: a process may start another one while it is being killed. */
const MOST_LOOKS = 3;

/** Returns the mark for a new process, and the environment that carries it. */
export function marked(env: NodeJS.ProcessEnv): { readonly mark: string; readonly env: NodeJS.ProcessEnv } {
  const mark = randomUUID();
  return { mark, env: { ...env, [TREE]: `${process.env[TREE] ?? ''}/${mark}` } };
}

/** Kills all processes with the mark, except this one. Finds none where there is no /proc. */
export function killMarked(mark: string): void {
  for (let look = 0; look < MOST_LOOKS; look += 1) {
    const found = processIds().filter((pid) => hasMark(pid, mark));
    if (found.length === 0) return;
    for (const pid of found) kill(pid);
  }
}

/** Returns the ids of all living descendants of a process. */
export function descendantsOf(pid: number): number[] {
  const children = new Map<number, number[]>();
  for (const id of processIds()) {
    const parent = parentOf(id);
    children.set(parent, [...(children.get(parent) ?? []), id]);
  }
  const found = [...(children.get(pid) ?? [])];
  for (const id of found) found.push(...(children.get(id) ?? []));
  return found;
}

export function kill(target: number): void {
  try {
    process.kill(target, 'SIGKILL');
  } catch {
    // The process has already ended.
  }
}

function processIds(): number[] {
  return entries('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid > 1 && pid !== process.pid);
}

function entries(folder: string): string[] {
  try {
    return process.platform === 'linux' ? readdirSync(folder) : [];
  } catch {
    return [];
  }
}

function hasMark(pid: number, mark: string): boolean {
  const trees = read(`/proc/${pid}/environ`)
    .split('\0')
    .filter((variable) => variable.startsWith(`${TREE}=`));
  // A process that is gone but not collected yet has no environment.
  return trees.some((tree) => tree.includes(mark));
}

function parentOf(pid: number): number {
  // The name of the program, in parentheses, may contain anything.
  return Number(/^.*\) \S (\d+)/s.exec(read(`/proc/${pid}/stat`))?.[1] ?? 0);
}

/** Returns the file's text; blank if this user may not read it, or the process has ended. */
function read(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}
