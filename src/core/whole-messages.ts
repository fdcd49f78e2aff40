/**
 * Whole messages, for inline code that has the habits of a function node's code: it uses other properties of its message
 * than the payload, makes several messages, or uses values of the context stores. The code itself tells, see
 * src/config/code. Such a stage gets its messages from Node-RED and gives its results to Node-RED, so it is a route by itself.
 */

export type ContextScope = 'context' | 'flow' | 'global';

export interface ContextPlace {
  readonly scope: ContextScope;
  /** Blank: the default store. */
  readonly store: string;
}

export function isSamePlace(one: ContextPlace, other: ContextPlace): boolean {
  return one.scope === other.scope && one.store === other.store;
}

export interface ContextKey extends ContextPlace {
  readonly key: string;
}

/** A value of the context as a run gets it; `stays`: it cannot leave Node-RED's process. */
export type ContextValue = ContextKey & ({ readonly value: unknown } | { readonly stays: true });

export interface MessageUse {
  /** The first reason, for people: for example `changes msg.topic`. */
  readonly why: string;
  /** Properties of the message that the code reads or changes besides the payload; null: any. */
  readonly properties: readonly string[] | null;
  /** `messages`: what the code returns are messages, as from a function node. `value`: it is the payload. */
  readonly returns: 'messages' | 'value';
  /** Whether the code sends messages or sets its status while it runs. */
  readonly sends: boolean;
  /** Whether a run lasts until the code calls `node.done()`. */
  readonly waits: boolean;
  /** The values that the code reads, as far as it names them. */
  readonly keys: readonly ContextKey[];
  /** The stores of which it may read any value, because it makes the key. */
  readonly stores: readonly ContextPlace[];
  /** Whether it also writes context, so that a run must see what the run before it wrote. */
  readonly writes: boolean;
  /** Whether it calls `update`, which promises that no other run writes between its read and its write. */
  readonly updates: boolean;
}

/** The parts of messages and contexts that inline code uses besides payloads. */
export interface CodeUse {
  /** Default: nothing. */
  readonly use?: MessageUse;
  /** Variables of the node, its groups and its flow that the code names. Default: those of the process. */
  readonly variables?: Readonly<Record<string, unknown>>;
}

/** The parts of a message beside its payload. Property values that cannot leave Node-RED's process have a name only. */
export interface MessageParts {
  readonly properties: Readonly<Record<string, unknown>>;
  readonly kept: readonly string[];
  /** The context as it is; a key without a value is absent. */
  readonly values: readonly ContextValue[];
}

/** A message that code has made. */
export interface MadeMessage {
  /** Whether it is the message that came, with these changes, or a new one. */
  readonly isOriginal: boolean;
  readonly properties: Readonly<Record<string, unknown>>;
  /** Properties of a new message that have the values of properties which did not leave Node-RED, by their names. */
  readonly kept: Readonly<Record<string, string>>;
  readonly removed: readonly string[];
}

/** A step of the code, in the order in which it did them. */
export type MessageStep =
  /** Messages by output; an output may get several. `isLast`: the code has returned them. */
  | {
      readonly does: 'send';
      readonly outputs: readonly (readonly MadeMessage[])[];
      readonly isLast: boolean;
    }
  | { readonly does: 'error'; readonly text: string; readonly message: MadeMessage }
  | { readonly does: 'status'; readonly status: unknown }
  | ({ readonly does: 'set'; readonly value: unknown } & ContextKey)
  | ({ readonly does: 'increment'; readonly by: number } & ContextKey);

/**
 * The result of a run, or a part of it. A class, so that a worker tells it from a value of user code; in Node-RED it arrives
 * as a plain object.
 */
export class MessageSteps {
  readonly steps: readonly MessageStep[];

  constructor(steps: readonly MessageStep[]) {
    this.steps = steps;
  }
}
