/** The text form of CPU pins, `0,1,2-3,[4,5]`: one entry per worker. Pure: does not look at the machine's own cores. */
import type { Pin } from '../core/model.ts';

const HIGHEST_CPU = 4095;

/**
 * Parses a pin list: `3` is a core, `2-3` is one entry per core, `[4,5]` or `[4-7]` is a group for one worker, and `-`
 * is an unpinned worker. Returns no entries for blank text.
 * @throws Error that names the entry it cannot parse.
 */
export function parsePins(text: string): Pin[] {
  const pins: Pin[] = [];
  for (const entry of splitEntries(text)) {
    if (entry === '-') pins.push(null);
    else if (entry.startsWith('[')) pins.push(parseCpus(entry.slice(1, -1)));
    else for (const cpu of parseRange(entry)) pins.push([cpu]);
  }
  return pins;
}

/** Parses a set of cores in the kernel's form, `0-3,8`. */
export function parseCpus(text: string): number[] {
  const cpus = new Set<number>();
  for (const part of text.split(',')) for (const cpu of parseRange(part.trim())) cpus.add(cpu);
  return [...cpus].sort((a, b) => a - b);
}

/** Formats a set of cores for taskset. */
export function formatCpus(cpus: readonly number[]): string {
  return cpus.join(',');
}

function splitEntries(text: string): string[] {
  const trimmed = text
    .trim()
    .replace(/\s+/g, ' ')
    .replace(/ ?([,[\]]) ?/g, '$1');
  if (trimmed === '') return [];
  const entries = trimmed.match(/\[[^\][]*\]|[^,[\]]+|,/g) ?? [];
  const rebuilt = entries.join('');
  const found = entries.filter((entry) => entry !== ',');
  const commas = entries.length - found.length;
  if (rebuilt !== trimmed || commas !== found.length - 1) {
    throw new Error(`CPU list "${text}" must be entries such as 0,1,2-3,[4,5] with commas between`);
  }
  return found;
}

function parseRange(text: string): number[] {
  const match = /^(\d{1,4})(?:-(\d{1,4}))?$/.exec(text);
  const first = Number(match?.[1]);
  const last = Number(match?.[2] ?? match?.[1]);
  if (!match || last < first || last > HIGHEST_CPU) throw new Error(`"${text}" is neither a core nor a range of cores`);
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}
