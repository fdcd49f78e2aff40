/** The parts that operations share: each part appears once, under its own name. */
import { isDeepStrictEqual } from 'node:util';
import type { PayloadSchema } from '../../core/model.ts';
import { withoutSurrounding } from '../../core/text.ts';
import { embed } from './embed.ts';
import type { JsonObject } from './endpoint.ts';

type ComponentKind = 'schemas' | 'responses' | 'parameters' | 'headers' | 'securitySchemes';

interface Component {
  /** Value that the part was made from. An equal source gives the same part. */
  readonly source: unknown;
  readonly value: unknown;
}

export class Components {
  readonly #parts: Map<ComponentKind, Map<string, Component>> = new Map();

  /** Returns a reference to a part. The part gets this name, or a similar one if another part has it. */
  refer(kind: ComponentKind, name: string, value: JsonObject): JsonObject {
    return { $ref: this.#place(kind, name, value, () => value) };
  }

  /** Returns a reference to a user's schema; null if the schema cannot be embedded in a document. */
  referSchema(name: string, schema: PayloadSchema): JsonObject | null {
    try {
      return { $ref: this.#place('schemas', name, schema, (at) => embed(schema, at)) };
    } catch {
      // The schema is nested too deeply. Deploy has checked it, so there is no other cause.
      return null;
    }
  }

  /** Returns the target of a reference that this object made. */
  read({ $ref: reference }: JsonObject): unknown {
    const [kind, name] = String(reference).split('/').slice(2);
    return this.#parts.get(kind as ComponentKind)?.get(name ?? '')?.value;
  }

  toJSON(): JsonObject {
    return Object.fromEntries(
      [...this.#parts].map(([kind, parts]) => [
        kind,
        Object.fromEntries([...parts].map(([name, { value }]) => [name, value])),
      ]),
    );
  }

  #place(kind: ComponentKind, wanted: string, source: unknown, make: (at: string) => unknown): string {
    const parts = this.#parts.get(kind) ?? new Map<string, Component>();
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
