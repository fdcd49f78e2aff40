/** Helpers for tests of a stage that keeps results. */
import type { StageDefinition } from '../../src/config/stage-definition.ts';
import type { CacheSettings, StageTiming } from '../../src/core/model.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import type { WireItem } from '../../src/wire/frames/frames.ts';
import type { Rig } from './rig.ts';

export const CACHE: CacheSettings = { entries: 100, maxBytes: 1_000_000, ttlMs: 0 };

/** A stage that keeps results. */
export function caching(settings: Partial<CacheSettings> = {}): Partial<StageDefinition> {
  return { cache: { ...CACHE, ...settings } };
}

/** Submits requests with one and the same input. */
export function ask(rig: Rig, ids: readonly number[], input: string, overrides: Partial<WireItem> = {}): Promise<void> {
  return rig.submit(ids, { payload: { codec: CODEC.json, bytes: Buffer.from(input) }, ...overrides });
}

/** How stage 1 has answered each request so far: the worker's number, or how it was saved the run. */
export function how(rig: Rig): string[] {
  return rig.outcomes.map(({ id, timings }) => `${id} ${source(timings[0])}`);
}

function source(timing: StageTiming | undefined): string | number {
  return timing?.cache ?? timing?.worker ?? 'unserved';
}

/** The engine's counts at a stage, as hits, misses and joined. */
export function counts(rig: Rig, ref = 1): number[] {
  const found = rig.engine.status().stages.find((one) => one.ref === ref);
  const { hit = 0, miss = 0, joined = 0 } = found?.reading.cache ?? {};
  return [hit, miss, joined];
}
