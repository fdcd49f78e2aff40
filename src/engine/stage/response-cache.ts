/**
 * Caches a stage's results by a hash of the input, bounded by number, bytes and age. The only file that imports
 * lru-cache. The caller decides which results to keep and when to clear them.
 */
import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../core/clock.ts';
import type { CacheSettings, CacheStatus, Payload } from '../../core/model.ts';
import type { WireItem } from '../../wire/frames/frames.ts';

/** Must resist deliberate collisions: a collision would give one caller another caller's result. */
const HASH = 'sha256';

export class ResponseCache {
  readonly #kept: LRUCache<string, Payload>;
  readonly #maxBytes: number;

  constructor({ entries, maxBytes, ttlMs }: CacheSettings, clock: Clock) {
    this.#maxBytes = maxBytes;
    // With a non-zero resolution, lru-cache would cache the time and start timers of its own.
    const time = { ttl: ttlMs, ttlResolution: 0, perf: { now: () => clock.now() } };
    this.#kept = new LRUCache({ max: entries, maxSize: maxBytes, ...time });
  }

  get status(): CacheStatus {
    return { entries: this.#kept.size, bytes: this.#kept.calculatedSize };
  }

  get(key: string): Payload | undefined {
    return this.#kept.get(key);
  }

  /** Keeps a copy and evicts the least recently used results. Ignores a result larger than the whole cache. */
  keep(key: string, { codec, bytes }: Payload): void {
    const size = key.length + bytes.byteLength;
    if (size > this.#maxBytes) return;
    // Copied, because bytes from a frame are a view that would keep the whole frame alive.
    this.#kept.set(key, { codec, bytes: new Uint8Array(bytes) }, { size });
  }

  clear(): void {
    this.#kept.clear();
  }
}

/**
 * Returns the key of an input: its encoded bytes, their codec, and the topic if present. The topic is sent only on
 * routes with code that reads it. The key includes it even if this stage's code does not: the next revision's may.
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
    // The worker refuses metadata that is not JSON, so the key only has to be unique.
    return Buffer.from(meta).toString('base64');
  }
}
