/** Writes figures for people: in messages, badges and findings. Figures of the editor: resources/figures.js. */

/** Formats a number with at most so many decimals and without zeros at its end. */
export function decimal(value: number, most = 2): string {
  return String(Number(value.toFixed(most)));
}

/** Formats a number with two digits, or all those of a whole number, such as `0.31`, `4.2` or `1250`. */
export function figure(value: number): string {
  return value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(2)));
}

/** Formats a share with at most so many decimals, such as `4.9 %`. */
export function percent(share: number, most = 0): string {
  return `${decimal(share * 100, most)} %`;
}

/** Formats a time, such as `3.2 ms`, `340 ms`, `1.2 s`, `75 s` or `3 min`. */
export function duration(ms: number): string {
  if (ms < 999.5) return `${twoDigits(ms)} ms`;
  return ms < 120_000 ? seconds(ms) : `${decimal(ms / 60_000, 0)} min`;
}

/** Formats a time in seconds, such as `0.2 s` or `150 s`. */
export function seconds(ms: number): string {
  return `${twoDigits(ms / 1000)} s`;
}

function twoDigits(value: number): string {
  return decimal(value, value < 9.95 ? 1 : 0);
}

/** Formats a time that has passed, such as `3 s ago`. */
export function ago(ms: number): string {
  return ms < 1000 ? 'just now' : `${duration(ms)} ago`;
}

/** Formats a number of things, such as `1 request` or `12 requests`. @param many default: `one` with an s */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** Returns a time in whole seconds as `Retry-After` has it, at least 1. */
export function retrySeconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000));
}
