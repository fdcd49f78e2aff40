/** The file of a Unix socket: who may use it, and what is left of a process that was killed. */
import { lstatSync, unlinkSync } from 'node:fs';
import { connect } from 'node:net';

/** The owner and the group may connect. A folder of the socket's own decides further. */
const NOT_OTHERS = 0o117;

/** Creates a socket by `bind`, at once, that only the owner and the group may use. */
export function withSocketMode(bind: () => void): void {
  const before = process.umask(NOT_OTHERS);
  try {
    bind();
  } finally {
    process.umask(before);
  }
}

/** Removes a socket without a listening process. Leaves any other file. */
export function releaseSocket(path: string): Promise<void> {
  return new Promise((resolve) => {
    const probe = connect(path);
    probe.once('connect', () => {
      probe.destroy();
      resolve();
    });
    probe.once('error', ({ code }: NodeJS.ErrnoException) => {
      if (code === 'ECONNREFUSED') remove(path);
      resolve();
    });
  });
}

/** Whether there is something else than a socket at a path. */
export function isFile(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSocket() === false;
}

function remove(path: string): void {
  try {
    if (lstatSync(path).isSocket()) unlinkSync(path);
  } catch {
    // It is gone already, or may not be removed: the next attempt to listen says so.
  }
}
