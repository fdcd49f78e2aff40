/** The rules for the metrics that a modelet declares itself. Each error names the rule. metrics.py has the same. */
import { isDeepStrictEqual } from 'node:util';
import type { OwnMetric } from '../../../core/readings.ts';
import type { MetricLabels } from './modelet.ts';

/** Bounds of a histogram that declares none: good for durations in seconds. */
export const DEFAULT_BUCKETS: readonly number[] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

const LONGEST_NAME = 100;
const LONGEST_HELP = 500;
const LONGEST_VALUE = 200;
const MOST_LABELS = 10;
const MOST_BUCKETS = 50;
/** Labels that the exposition sets itself. */
const TAKEN = ['runtime', 'stage', 'worker', 'le'];
/** `modelet_model_runs_total` counts the runs of all stages. */
const TAKEN_NAME = 'runs_total';

/**
 * Returns the description as it is kept.
 * @param known the earlier description with this name; null without one
 * @throws TypeError for a description that breaks a rule
 */
export function ruledMetric({ type, name, help, labels, buckets }: OwnMetric, known: OwnMetric | null): OwnMetric {
  if (!isName(name)) throw new TypeError(`the name of a metric ${NAME_RULE}; found ${shown(name)}`);
  if (name === TAKEN_NAME) throw new TypeError(`the name ${name} is taken: the stage counts its runs under it`);
  if (typeof help !== 'string') throw new TypeError(`the help of ${name} must be text; found ${shown(help)}`);
  if (!Array.isArray(labels) || labels.length > MOST_LABELS || new Set(labels).size < labels.length) {
    const rule = `must be an array of at most ${MOST_LABELS} different names`;
    throw new TypeError(`the labels of ${name} ${rule}; found ${shown(labels)}`);
  }
  for (const label of labels) {
    if (!isName(label) || label.startsWith('__')) {
      throw new TypeError(`a label of ${name} ${NAME_RULE}, and does not begin with __; found ${shown(label)}`);
    }
    if (TAKEN.includes(label)) throw new TypeError(`${name} cannot have the label ${label}: the stage sets it`);
  }
  if (buckets) checkBuckets(name, buckets);
  const about = { type, name, help: help.slice(0, LONGEST_HELP), labels: [...labels] };
  const ruled: OwnMetric = buckets ? { ...about, buckets: [...buckets] } : about;
  // Code that only looks a metric up need not repeat its help.
  if (known && !isDeepStrictEqual({ ...ruled, help: known.help }, known)) {
    throw new TypeError(`${name} is a ${known.type} already, with ${words(known)}; declare it the same way each time`);
  }
  return ruled;
}

/** @throws TypeError for a number that the metric cannot take */
export function ruledNumber({ type, name }: OwnMetric, value: unknown, least?: number): number {
  const isAllowed = typeof value === 'number' && Number.isFinite(value) && (least === undefined || value >= least);
  if (isAllowed) return value;
  const rule = least === undefined ? 'a finite number' : `a finite number of at least ${least}`;
  throw new TypeError(`${type} ${name} takes ${rule}; found ${shown(value)}`);
}

/**
 * Returns the label values, in the order of the labels, as a JSON array.
 * @throws TypeError if a label has no value, or a value has no label
 */
export function seriesKey({ type, name, labels }: OwnMetric, values: MetricLabels): string {
  const given = Object.keys(values);
  if (
    given.length !== labels.length ||
    labels.some((label) => !Object.hasOwn(values, label) || values[label] === undefined)
  ) {
    const wanted = labels.length > 0 ? `needs a value for each of its labels ${labels.join(', ')}` : 'has no labels';
    throw new TypeError(`${type} ${name} ${wanted}; found ${given.join(', ') || 'none'}`);
  }
  return JSON.stringify(labels.map((label) => String(values[label]).slice(0, LONGEST_VALUE)));
}

const NAME_RULE = `consists of letters, digits and _, begins with no digit, and has at most ${LONGEST_NAME} characters`;

function isName(name: unknown): name is string {
  return typeof name === 'string' && name.length <= LONGEST_NAME && /^[a-zA-Z_][a-zA-Z0-9_]*$/.test(name);
}

function checkBuckets(name: string, buckets: readonly unknown[]): void {
  const isAscending =
    Array.isArray(buckets) &&
    buckets.length > 0 &&
    buckets.length <= MOST_BUCKETS &&
    buckets.every((bound, index) => Number.isFinite(bound) && (index === 0 || bound > buckets[index - 1]));
  if (isAscending) return;
  const rule = `must be an array of 1 to ${MOST_BUCKETS} finite numbers in ascending order`;
  throw new TypeError(`the buckets of ${name} ${rule}; found ${shown(buckets)}`);
}

function words({ labels, buckets }: OwnMetric): string {
  const named = labels.length > 0 ? `the labels ${labels.join(', ')}` : 'no labels';
  return buckets ? `${named} and the buckets ${buckets.join(', ')}` : named;
}

function shown(value: unknown): string {
  const isNumber = typeof value === 'number' || typeof value === 'bigint';
  const text = isNumber ? String(value) : (JSON.stringify(value) ?? String(value));
  return text.length > 100 ? `${text.slice(0, 100)}...` : text;
}
