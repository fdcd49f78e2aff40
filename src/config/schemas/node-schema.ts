/** What the schema of a node is made of. */

interface Property {
  readonly type: 'string' | 'integer' | 'number' | 'boolean' | 'array';
  readonly default: string | number | boolean | readonly [];
  readonly description: string;
  readonly enum?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
  /** JSON Schema of what an array has. */
  readonly items?: object;
}

export interface NodeSchema {
  readonly type: 'object';
  readonly properties: Readonly<Record<string, Property>>;
}

/** A day. */
export const MAX_TIMEOUT_MS: number = 24 * 60 * 60 * 1000;
