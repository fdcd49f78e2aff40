/** The limits of one client: requests per second, and requests at a time. Pure: the caller passes the time, in ms. */
import type { ClientKey } from '../../core/endpoints.ts';

/**
 * A bucket fills steadily and holds what one second brings, at least one token. Each request takes one. The caller keeps
 * the bucket that it gets back.
 */
export interface Bucket {
  readonly tokens: number;
  /** When the bucket held so many. */
  readonly at: number;
}

/** The bucket afterwards, and how long the request must wait for its token: 0 if it has taken one. */
export interface Taken {
  readonly bucket: Bucket;
  readonly waitMs: number;
}

/** Why a request finds no room, and after how long it may find some. */
export interface Limited {
  readonly reason: string;
  readonly retryAfterSeconds: number;
}

export function fullBucket(rate: number, now: number): Bucket {
  return { tokens: burstOf(rate), at: now };
}

/** Takes a token, if there is one. @param rate tokens per second, more than 0 */
export function takeToken(bucket: Bucket, rate: number, now: number): Taken {
  const passed = Math.max(0, now - bucket.at);
  const tokens = Math.min(burstOf(rate), bucket.tokens + (passed * rate) / 1000);
  if (tokens >= 1) return { bucket: { tokens: tokens - 1, at: now }, waitMs: 0 };
  return { bucket: { tokens, at: now }, waitMs: ((1 - tokens) * 1000) / rate };
}

function burstOf(rate: number): number {
  return Math.max(1, rate);
}

/** What a client has used. Its requests keep it until they end, so it may outlive the key. */
export class Usage {
  #bucket: Bucket;
  #open = 0;

  constructor({ rate }: ClientKey, now: number) {
    this.#bucket = fullBucket(rate, now);
  }

  /** Lets one more request in; returns why not if there is no room. */
  enter({ rate, concurrent }: ClientKey, now: number): Limited | null {
    // Such a request takes no token.
    if (concurrent > 0 && this.#open >= concurrent) {
      return { reason: `${concurrent} requests with this key are under way`, retryAfterSeconds: 1 };
    }
    if (rate > 0) {
      const { bucket, waitMs } = takeToken(this.#bucket, rate, now);
      this.#bucket = bucket;
      const retryAfterSeconds = Math.ceil(waitMs / 1000);
      if (waitMs > 0) return { reason: `this key allows ${rate} requests per second`, retryAfterSeconds };
    }
    this.#open += 1;
    return null;
  }

  /** Call once for each request that was let in. */
  leave(): void {
    this.#open -= 1;
  }
}
