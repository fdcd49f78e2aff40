/**
 * Divides requests into portions. Requests without a key go round robin: over 100 requests each portion has exactly its
 * percentage, and the requests of a portion are spread evenly. Requests with a key go by its hash, so that a key stays
 * in its portion. If the shares change, few keys change their portion: none but those that a portion gains or loses.
 */

export interface Portion {
  /** Tells the portion apart from others, also after a restart. */
  readonly name: string;
  readonly share: number;
}

export class Divider {
  readonly #portions: readonly (Portion & { readonly hash: number })[];
  readonly #total: number;
  /** The debt to each portion, in percent of a request. Together they are 0. */
  readonly #owed: number[];

  constructor(portions: readonly Portion[]) {
    this.#portions = portions.map((portion) => ({ ...portion, hash: hashOf(portion.name) }));
    this.#total = portions.reduce((sum, { share }) => sum + share, 0);
    this.#owed = portions.map(() => 0);
  }

  /**
   * Returns the index of the portion that gets a request.
   * @param key hash of the request's key; 0: it has none
   */
  next(key: number): number {
    return key === 0 ? this.#inTurn() : this.#byKey(key);
  }

  /** Smooth weighted round robin. */
  #inTurn(): number {
    const owed = this.#owed;
    let first = 0;
    for (const [index, { share }] of this.#portions.entries()) {
      owed[index] = (owed[index] as number) + share;
      if ((owed[index] as number) > (owed[first] as number)) first = index;
    }
    owed[first] = (owed[first] as number) - this.#total;
    return first;
  }

  /** Weighted rendezvous hashing: each portion draws a number for the key, and the largest wins. */
  #byKey(key: number): number {
    let best = 0;
    let most = Number.NEGATIVE_INFINITY;
    for (const [index, { share, hash }] of this.#portions.entries()) {
      // Between 0 and 1, without the ends.
      const drawn = (mix(key ^ hash) + 0.5) / 2 ** 32;
      const score = share === 0 ? Number.NEGATIVE_INFINITY : share / -Math.log(drawn);
      if (score <= most) continue;
      most = score;
      best = index;
    }
    return best;
  }
}

function hashOf(text: string): number {
  let hash = 0;
  for (const byte of Buffer.from(text)) hash = mix(hash ^ byte);
  return hash;
}

/** The finalizer of MurmurHash3: each bit of the input changes half of the bits of the result. */
function mix(value: number): number {
  let bits = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
