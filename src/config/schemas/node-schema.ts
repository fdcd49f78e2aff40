/** The form of a node's schema, and the types of its settings. A schema is the only place that declares a property. */

/** A text element of an array, or a text field in the objects of an array. */
interface Field {
  readonly type: 'string';
  readonly default?: string;
}

interface Property {
  readonly type: 'string' | 'integer' | 'number' | 'boolean' | 'array';
  readonly default: string | number | boolean | readonly [];
  readonly description: string;
  /** The part of the runtime that gets the setting as it is; see stage-definition.ts. */
  readonly goesTo?: 'engine' | 'modelet';
  readonly enum?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
  /** Schema of the elements of an array. */
  readonly items?:
    | Field
    | {
        readonly type: 'object';
        readonly required?: readonly string[];
        readonly properties: Readonly<Record<string, Field>>;
      };
}

export interface NodeSchema {
  readonly type: 'object';
  readonly properties: Readonly<Record<string, Property>>;
}

/** One day. */
export const MAX_TIMEOUT_MS: number = 24 * 60 * 60 * 1000;

/** Settings after validation: every property is present, with its type and within its bounds. */
export type SettingsOf<Schema extends NodeSchema> = {
  readonly [Name in keyof Schema['properties']]: SettingOf<Schema['properties'][Name]>;
};

type SettingOf<Declared> = Declared extends { readonly enum: readonly (infer Choice)[] }
  ? Choice
  : Declared extends { readonly items: { readonly properties: infer Fields } }
    ? readonly { readonly [Name in keyof Fields]: string }[]
    : Declared extends { readonly type: 'array' }
      ? readonly string[]
      : Declared extends { readonly type: 'boolean' }
        ? boolean
        : Declared extends { readonly type: 'integer' | 'number' }
          ? number
          : string;
