/** The text form of CPU pins, `0,1,2-3,[4,5]`: one entry per worker. Pure: does not look at the machine's own cores. */
import type { Pin } from '../../core/model.ts';
import { unreadable } from './unreadable.ts';

const HIGHEST_CPU = 4095;

/**
 * Parses a pin list: `3` is a core, `2-3` is one entry per core, `[4,5]` or `[4-7]` is a group for one worker, and `-`
 * is an unpinned worker. Returns no entries for blank text.
 * @throws Unreadable that names the entry
 */
export function parsePins(text: string): Pin[] {
  if (text.trim() === '') return [];
  return entriesOf(text).flatMap((part): Pin[] => {
    const entry = part.trim();
    if (entry === '-') return [null];
    const group = /^\[([^[\]]*)\]$/.exec(entry)?.[1];
    return group === undefined ? parseRange(entry, text).map((cpu) => [cpu]) : [parseCpus(group)];
  });
}

/**
 * Parses the cores of one process, with or without brackets around them; null for blank text.
 * @throws Unreadable
 */
export function parseCores(text: string): number[] | null {
  const list = text.trim();
  return list === '' ? null : parseCpus(/^\[(.*)\]$/.exec(list)?.[1] ?? list);
}

/** Parses a set of cores in the kernel's form, `0-3,8`. */
export function parseCpus(text: string): number[] {
  const cpus = new Set(text.split(',').flatMap((part) => parseRange(part.trim(), text)));
  return [...cpus].sort((a, b) => a - b);
}

/** Formats a set of cores for taskset. */
export function formatCpus(cpus: readonly number[]): string {
  return cpus.join(',');
}

/** Commas within brackets do not part entries. */
function entriesOf(text: string): string[] {
  const entries: string[] = [];
  let isOpen = false;
  for (const part of text.split(',')) {
    if (isOpen) entries.push(`${entries.pop()},${part}`);
    else entries.push(part);
    if (/[[\]]/.test(part)) isOpen = part.lastIndexOf('[') > part.lastIndexOf(']');
  }
  return entries;
}

function parseRange(token: string, list: string): number[] {
  if (token === '') throw unreadable(`CPU list "${list}" must not have empty entries`, 'empty');
  const match = /^(\d+)(?:-(\d+))?$/.exec(token);
  if (!match) throw unreadable(`"${token}" is neither a core nor a range of cores`, 'unreadable', { token });
  const first = Number(match[1]);
  const last = Number(match[2] ?? match[1]);
  if (last < first) throw unreadable(`the range of cores "${token}" runs backwards`, 'backwards', { token });
  if (last > HIGHEST_CPU) {
    throw unreadable(`"${token}" names a core beyond ${HIGHEST_CPU}`, 'tooHigh', { core: last, max: HIGHEST_CPU });
  }
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}
