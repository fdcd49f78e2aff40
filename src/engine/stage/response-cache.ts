/**
 * Results that a stage keeps, by a hash of the input: bounded by number, by bytes and by age. The only file that
 * imports lru-cache. Whose results they are, and for how long, is not known here.
 */
import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../core/clock.ts';
import type { CacheSettings, CacheStatus, Payload } from '../../core/model.ts';
import type { WireItem } from '../../wire/frames/frames.ts';

/** Collisions must not be found on purpose either: one would get another's result. */
const HASH = 'sha256';

export class ResponseCache {
  readonly #kept: LRUCache<string, Payload>;
  readonly #maxBytes: number;

  constructor({ entries, maxBytes, ttlMs }: CacheSettings, clock: Clock) {
    this.#maxBytes = maxBytes;
    // With a resolution, it would keep the time by timers of its own.
    const time = { ttl: ttlMs, ttlResolution: 0, perf: { now: () => clock.now() } };
    this.#kept = new LRUCache({ max: entries, maxSize: maxBytes, ...time });
  }

  get status(): CacheStatus {
    return { entries: this.#kept.size, bytes: this.#kept.calculatedSize };
  }

  get(key: string): Payload | undefined {
    return this.#kept.get(key);
  }

  /** Keeps a copy; pushes out what was asked for longest ago. A result larger than the whole is not kept. */
  keep(key: string, { codec, bytes }: Payload): void {
    const size = key.length + bytes.byteLength;
    if (size > this.#maxBytes) return;
    // What came in a frame is a view of all of it.
    this.#kept.set(key, { codec, bytes: new Uint8Array(bytes) }, { size });
  }

  clear(): void {
    this.#kept.clear();
  }
}

/**
 * What tells inputs apart: the encoded bytes, how they are to be read, and the topic where it came along, which is on
 * routes with code that looks at it. Whether this stage's does is not asked: the next revision's may.
 */
export function cacheKey({ payload: { codec, bytes }, meta }: Pick<WireItem, 'payload' | 'meta'>): string {
  const key = `${codec} ${hash(HASH, bytes, 'base64')}`;
  return meta ? `${key} ${hash(HASH, topicOf(meta), 'base64')}` : key;
}

function topicOf(meta: Uint8Array): string {
  try {
    const { topic } = JSON.parse(Buffer.from(meta).toString()) as { topic?: unknown };
    return JSON.stringify(topic) ?? '';
  } catch {
    // The worker refuses it, with all it has.
    return Buffer.from(meta).toString('base64');
  }
}
