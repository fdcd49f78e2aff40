/** Compiles the settings of a node. Errors name settings as the editor's dialogs label them: users see labels, not properties. */
import { readFileSync } from 'node:fs';
import { asModeletError, ModeletError } from '../core/errors.ts';

interface Catalog {
  readonly label?: Readonly<Record<string, string>>;
}

/** The labels that were read, by type of node. The build copies the editor's catalogs beside the nodes. */
const known: Map<string, Readonly<Record<string, string>>> = new Map();

/**
 * Returns the settings, or the error that makes the node unusable: a runtime cannot refuse a deploy.
 * @param type the type of the node
 */
export function configure<Config>(type: string, compile: () => Config): Config | ModeletError {
  try {
    return compile();
  } catch (thrown) {
    return inLabels(type, asModeletError(thrown, 'config_invalid'));
  }
}

/**
 * Returns the error with labels instead of the properties in front of its faults: `Batch size: must be <= 10000`.
 * @param type the type of the node that has the settings
 */
export function inLabels(type: string, error: ModeletError): ModeletError {
  const labels = labelsOf(type);
  const message = error.message.replaceAll(
    /(^|; )(\w+)(?=: )/g,
    (all, before: string, name: string) => `${before}${labels[name] ?? all.slice(before.length)}`,
  );
  return message === error.message ? error : new ModeletError(error.code, message);
}

function labelsOf(type: string): Readonly<Record<string, string>> {
  const found = known.get(type);
  if (found) return found;
  const file = new URL(`../../nodes/locales/en-US/${type}.json`, import.meta.url);
  const { [type]: catalog } = JSON.parse(readFileSync(file, 'utf8')) as Record<string, Catalog>;
  const labels = catalog?.label ?? {};
  known.set(type, labels);
  return labels;
}
