/** The form of a node's schema, and the types of its settings. A schema is the only place that declares a property. */

/** A text element of an array, or a text field in the objects of an array. */
interface Field {
  readonly type: 'string';
  readonly default?: string;
}

/** Formats that src/config/formats reads. Beside them, `property` is the name of a message property. */
export type Format =
  | ('base-url' | 'broker-url' | 'clients' | 'cores' | 'json' | 'json-schema' | 'key-prefix' | 'labels' | 'listen')
  | ('media-types' | 'module' | 'origins' | 'path' | 'pins' | 'result-property' | 'server-url' | 'workers');

/** Other properties, each with the values with which this one has an effect. Else the editor hides it and checks no more than its choices. */
type Condition = Readonly<Record<string, readonly string[]>>;

/**
 * A property, declared for all who use it: deploys check it (validate.ts), the build makes its row, its default and its
 * validator for the editor (scripts/editor-halves.mjs), and the documentation has a table of all of them.
 */
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
  /** The meaning of a text, or of a list. */
  readonly format?: Format | 'property';
  /** Bounds of a text that is blank or a number. */
  readonly numeric?: { readonly minimum: number; readonly maximum: number; readonly isWhole?: boolean };
  /** The editor does not take blank text. */
  readonly needed?: true;
  /** Type of the node whose id this is; with `[]`, of the nodes whose ids these are. */
  readonly refersTo?: string;
  readonly onlyIf?: Condition;
  /** Sign in front of the label, from Font Awesome. A property without one has no row of the usual form. */
  readonly icon?: string;
  /** Text behind the field: a key of the catalog below `unit`, or the unit itself. */
  readonly unit?: string;
}

/** A secret, which Node-RED stores apart from the flows. It never sends passwords to the editor. */
interface Credential {
  readonly type: 'text' | 'password';
  readonly icon?: string;
  readonly onlyIf?: Condition;
}

export interface NodeSchema {
  readonly type: 'object';
  readonly properties: Readonly<Record<string, Property>>;
  readonly credentials?: Readonly<Record<string, Credential>>;
}

/** The usual form of a time: up to a day. */
export const TIME = { type: 'integer', minimum: 0, maximum: 24 * 60 * 60 * 1000, unit: 'ms' } as const;

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
