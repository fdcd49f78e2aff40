/** Reads the labels of an ONNX model: from the options of its stage, from a file beside it, or from its metadata. */
import { readFileSync } from 'node:fs';
import { dirname, extname, resolve } from 'node:path';
import type { OnnxOptions } from '../../../config/stage-source.ts';
import type { ModelFile } from './model-file.ts';

/** Entries of a dict of Python with numbers as keys: `{0: 'person', 1: "traffic light"}`. */
const ENTRIES = /(\d+)\s*:\s*(?:'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)")/g;

/**
 * @param path of the model
 * @throws Error for a file that cannot be read, or has no labels
 */
export function readLabels(path: string, labels: OnnxOptions['labels']): readonly string[] | null {
  if (labels === null || typeof labels !== 'string') return labels;
  const file = resolve(dirname(path), labels);
  let read: unknown;
  try {
    const text = readFileSync(file, 'utf8');
    if (extname(file) === '.txt') return text.trimEnd().split(/\r?\n/);
    read = JSON.parse(text);
  } catch (cause) {
    throw new Error(`labels: ${file}: ${(cause as Error).message}`, { cause });
  }
  const named = namesIn((read as { readonly id2label?: unknown } | null)?.id2label ?? read);
  if (named) return named;
  throw new Error(`labels: ${file} must have a JSON array of texts`);
}

/** Returns the texts of an array, or of an object from 0, 1 and so on to texts; null for anything else. */
function namesIn(read: unknown): readonly string[] | null {
  if (read === null || typeof read !== 'object') return null;
  const names = Object.values(read);
  const inOrder = Object.keys(read).every((key, at) => key === String(at));
  return inOrder && names.length > 0 && names.every((name) => typeof name === 'string') ? names : null;
}

/** Returns the labels that the exporter has written into the model; null: none. */
export function labelsOf({ metadata }: ModelFile): readonly string[] | null {
  const text = metadata.get('names') ?? '';
  const entries = [...text.matchAll(ENTRIES)].map(
    ([, index, single, double]) => [Number(index), (single ?? double ?? '').replaceAll(/\\(.)/g, '$1')] as const,
  );
  return entries.length > 0 && entries.every(([index], at) => index === at) ? entries.map(([, name]) => name) : null;
}
