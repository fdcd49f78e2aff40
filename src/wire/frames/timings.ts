/** Encodes what each stage of an item's way took, see items.ts. */
import type { SavedRun, StageTiming } from '../../core/model.ts';

/** Size of one stage's timing, in bytes. */
export const TIMING = 24;

const SAVED: Readonly<Record<SavedRun, number>> = { hit: -1, joined: -2 };

export function writeTiming(buffer: Buffer, offset: number, timing: StageTiming): number {
  buffer.writeUInt32LE(timing.stage, offset);
  buffer.writeFloatLE(timing.waitMs, offset + 4);
  buffer.writeFloatLE(timing.batchMs, offset + 8);
  buffer.writeFloatLE(timing.runMs, offset + 12);
  buffer.writeUInt32LE(timing.batchSize, offset + 16);
  buffer.writeInt32LE(timing.cache ? SAVED[timing.cache] : timing.worker, offset + 20);
  return offset + TIMING;
}

export function readTimings(frame: Buffer, offset: number, count: number): StageTiming[] {
  const timings: StageTiming[] = [];
  for (let at = offset; at < offset + count * TIMING; at += TIMING) {
    const worker = frame.readInt32LE(at + 20);
    const timing: StageTiming = {
      stage: frame.readUInt32LE(at),
      waitMs: frame.readFloatLE(at + 4),
      batchMs: frame.readFloatLE(at + 8),
      runMs: frame.readFloatLE(at + 12),
      batchSize: frame.readUInt32LE(at + 16),
      worker: Math.max(-1, worker),
    };
    timings.push(worker >= 0 ? timing : { ...timing, cache: worker === SAVED.hit ? 'hit' : 'joined' });
  }
  return timings;
}
