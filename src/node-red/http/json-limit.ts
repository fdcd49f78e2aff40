/** Reads `apiMaxLength` of Node-RED's settings: the largest JSON body that HTTP-in nodes parse. */
import type { NodeAPI } from 'node-red';

const SIZE = /^\s*(\d+(?:\.\d+)?)\s*([kmgtp]?)b?\s*$/i;
const POWERS = ['', 'k', 'm', 'g', 't', 'p'];

/** Returns the setting as Node-RED's settings have it. */
export function apiMaxLength({ settings }: NodeAPI): string {
  return String((settings as { apiMaxLength?: unknown }).apiMaxLength || '5mb');
}

/** Returns the limit in bytes. A text that body parsers cannot read is no limit for them. */
export function jsonLimit(RED: NodeAPI): { readonly bytes: number; readonly name: string } {
  const text = apiMaxLength(RED);
  const [, digits, unit] = SIZE.exec(text) ?? [];
  const bytes =
    digits === undefined
      ? Number.POSITIVE_INFINITY
      : Number(digits) * 1024 ** POWERS.indexOf((unit ?? '').toLowerCase());
  return { bytes: Math.floor(bytes), name: `${text}, the apiMaxLength of Node-RED` };
}
