/**
 * The settings of a runtime, as its engine gets them. Some it has from its start to its end; the others come with each
 * plan, so that a deploy can change them under open requests and loaded models.
 */
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { RuntimeConfig } from '../../config/compile.ts';
import type { ListenerTerms } from '../../core/endpoints.ts';
import type { EngineBoot } from '../../wire/frames/bodies.ts';
import type { Machine, RuntimePins } from './runtime-pins.ts';

/** Returns the settings that an engine keeps: its memory is shared out by them, and its processes are started with them. */
function fixedIn(config: RuntimeConfig): object {
  const { maxPayloadBytes, maxQueueBytes, mostWaiting, engineCpus, serverCpus, strictPins } = config;
  return { maxPayloadBytes, maxQueueBytes, mostWaiting, engineCpus, serverCpus, strictPins };
}

/** Whether an engine that was started with some settings can go on with others. */
export function suitsEngine(started: RuntimeConfig, wanted: RuntimeConfig): boolean {
  return isDeepStrictEqual(fixedIn(started), fixedIn(wanted));
}

/** @param states folder for the states of the keys of all runtimes; null or undefined: none */
export function engineBoot(
  id: string,
  { maxPayloadBytes, maxQueueBytes, mostWaiting, strictPins }: RuntimeConfig,
  { allowedCpus, launcher }: Machine,
  { barred }: Pick<RuntimePins, 'barred'>,
  states: string | null | undefined,
): EngineBoot {
  const statesFolder = states ? join(states, encodeURIComponent(id)) : '';
  const requests = { mostWaiting, barred };
  return { maxPayloadBytes, maxQueueBytes, statesFolder, allowedCpus, launcher, strictPins, requests };
}

/** @param named the name of the runtime, and its settings */
export function listenerTerms(named: { readonly name: string; readonly config: RuntimeConfig }): ListenerTerms {
  const { capacity, timeoutMs, logLevel } = named.config;
  return { runtime: named.name, capacity, timeoutMs, logsEach: logLevel === 'debug' || logLevel === 'trace' };
}
