/** What several operations share: each part once, under a name of its own. */
import { isDeepStrictEqual } from 'node:util';
import type { PayloadSchema } from '../core/model.ts';
import { withoutSurrounding } from '../core/text.ts';
import { embed } from './embed.ts';
import type { JsonObject } from './endpoint.ts';

type Kind = 'schemas' | 'responses' | 'parameters' | 'headers';

interface Part {
  /** What it was made of: the same again is the same part. */
  readonly source: unknown;
  readonly value: unknown;
}

export class Components {
  readonly #parts: Map<Kind, Map<string, Part>> = new Map();

  /** A reference to a part, which gets this name or, where another has it, one like it. */
  refer(kind: Kind, name: string, value: JsonObject): JsonObject {
    return { $ref: this.#place(kind, name, value, () => value) };
  }

  /** The same for a schema of a user; null for one that cannot be put into a document. */
  referSchema(name: string, schema: PayloadSchema): JsonObject | null {
    try {
      return { $ref: this.#place('schemas', name, schema, (at) => embed(schema, at)) };
    } catch {
      // Nested too deeply. It was checked before: nothing else can be wrong with it.
      return null;
    }
  }

  /** What a reference that was made here leads to. */
  read({ $ref: reference }: JsonObject): unknown {
    const [kind, name] = String(reference).split('/').slice(2);
    return this.#parts.get(kind as Kind)?.get(name ?? '')?.value;
  }

  toJSON(): JsonObject {
    return Object.fromEntries(
      [...this.#parts].map(([kind, parts]) => [
        kind,
        Object.fromEntries([...parts].map(([name, { value }]) => [name, value])),
      ]),
    );
  }

  #place(kind: Kind, wanted: string, source: unknown, make: (at: string) => unknown): string {
    const parts = this.#parts.get(kind) ?? new Map<string, Part>();
    this.#parts.set(kind, parts);
    const base = withoutSurrounding(wanted.replace(/[^\w.-]+/g, '_'), '_') || 'unnamed';
    for (let count = 1; ; count += 1) {
      const name = count === 1 ? base : `${base}_${count}`;
      const at = `#/components/${kind}/${name}`;
      const there = parts.get(name);
      if (there && !isDeepStrictEqual(there.source, source)) continue;
      if (!there) parts.set(name, { source, value: make(at) });
      return at;
    }
  }
}
