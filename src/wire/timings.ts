/** What each stage has cost an item, as bytes of a frame: u32 stage, f32 wait, batch and run ms, u32 batch size, u32 worker. */
import type { StageTiming } from '../core/model.ts';

/** Bytes of one stage's timing. */
export const TIMING = 24;

/** Returns the offset behind it. */
export function writeTiming(buffer: Buffer, offset: number, timing: StageTiming): number {
  buffer.writeUInt32LE(timing.stage, offset);
  buffer.writeFloatLE(timing.waitMs, offset + 4);
  buffer.writeFloatLE(timing.batchMs, offset + 8);
  buffer.writeFloatLE(timing.runMs, offset + 12);
  buffer.writeUInt32LE(timing.batchSize, offset + 16);
  buffer.writeUInt32LE(timing.worker, offset + 20);
  return offset + TIMING;
}

export function readTimings(frame: Buffer, offset: number, count: number): StageTiming[] {
  const timings: StageTiming[] = [];
  for (let at = offset; at < offset + count * TIMING; at += TIMING) {
    timings.push({
      stage: frame.readUInt32LE(at),
      waitMs: frame.readFloatLE(at + 4),
      batchMs: frame.readFloatLE(at + 8),
      runMs: frame.readFloatLE(at + 12),
      batchSize: frame.readUInt32LE(at + 16),
      worker: frame.readUInt32LE(at + 20),
    });
  }
  return timings;
}
