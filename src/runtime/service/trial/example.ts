/** An input to try a modelet with: its first example, or a value that its input schema describes. */
import type { ModeletDescription } from '../../../core/model.ts';

/** The words of a JSON Schema that are read here. */
type Word =
  | 'type'
  | 'examples'
  | 'default'
  | 'const'
  | 'enum'
  | 'properties'
  | 'required'
  | 'items'
  | 'minItems'
  | 'minimum'
  | 'anyOf'
  | 'oneOf'
  | 'allOf';
type ExampleSchema = Readonly<Partial<Record<Word, unknown>>>;

const DEEPEST = 8;
/** Most values, so that a schema cannot ask for an endless array. */
const MOST_VALUES = 100_000;

/** Returns the JSON of an input, or null if the modelet declares neither an example nor a schema that tells of one. */
export function exampleOf(description: ModeletDescription | null): string | null {
  const [example] = description?.examples ?? [];
  if (example !== undefined) return example;
  const text = description?.inputSchema ?? null;
  const value = text === null ? undefined : new Examples().of(JSON.parse(text) as unknown, 0);
  return value === undefined ? null : JSON.stringify(value);
}

/** Makes values that are as simple as their schemas allow. */
class Examples {
  /** Number of values that may still be made. */
  #left = MOST_VALUES;

  /** Returns undefined if the schema does not say, or asks for too much. */
  of(schema: unknown, depth: number): unknown {
    this.#left -= 1;
    if (schema === null || typeof schema !== 'object' || depth > DEEPEST || this.#left < 0) return undefined;
    return named(schema) ?? this.#ofType(schema, depth);
  }

  #ofType(schema: ExampleSchema, depth: number): unknown {
    switch (typeOf(schema)) {
      case 'object':
        return this.#object(schema, depth);
      case 'array':
        return this.#array(schema, depth);
      case 'string':
        return 'text';
      case 'number':
      case 'integer':
        return schema.minimum ?? 0;
      case 'boolean':
        return true;
      case 'null':
        return null;
      default:
        return this.of([schema.anyOf, schema.oneOf, schema.allOf].flatMap(listOf)[0], depth + 1);
    }
  }

  /** Has the required properties; all of them, if none is required. */
  #object({ properties, required }: ExampleSchema, depth: number): object {
    const known = (properties ?? {}) as Readonly<Record<string, unknown>>;
    const needed = listOf(required).map(String);
    const names = needed.length > 0 ? needed : Object.keys(known);
    return Object.fromEntries(names.map((name) => [name, this.of(known[name], depth + 1) ?? null]));
  }

  #array({ items, minItems }: ExampleSchema, depth: number): unknown[] {
    const length = Math.min(Number(minItems ?? 1), Math.max(0, this.#left));
    return Array.from({ length }, () => this.of(items, depth + 1) ?? null);
  }
}

/** Returns a value that the schema itself has. */
function named({ examples, default: usual, const: only, enum: all }: ExampleSchema): unknown {
  return listOf(examples)[0] ?? usual ?? only ?? listOf(all)[0];
}

function typeOf({ type, properties, items }: ExampleSchema): unknown {
  if (type !== undefined) return Array.isArray(type) ? (type as unknown[])[0] : type;
  return properties ? 'object' : items ? 'array' : undefined;
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
