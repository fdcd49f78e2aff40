/** What is known of an HTTP endpoint that leads to a pipeline: what its description is made of. Interfaces only. */
import type { PayloadSchema } from '../core/model.ts';

/** A stage that takes what a request brings, or gives what its answer has. */
export interface ApiStage {
  readonly name: string;
  /** Message property that it takes, or writes: `payload` is the body, or with GET the query. */
  readonly property: string;
  /** null: anything, or not known. */
  readonly schema: PayloadSchema | null;
  /** Nothing lies between it and HTTP that may change the message. */
  readonly direct: boolean;
}

/** The first stage that a request comes to. */
export interface ApiInput extends ApiStage {
  /** Of the body, in lower case; may be ranges such as `image/*`. */
  readonly mediaTypes: readonly string[];
  /** Inputs that work, as they were told. */
  readonly examples: readonly unknown[];
}

/**
 * What may come of a request, besides errors:
 *
 *   result  what a stage gives; of a flow that answers by itself there is none
 *   parts   what a stage gives, part by part: how the flow sends them is not known
 *   stored  a durable gate has it, and says where to ask for it
 *   state   a durable gate says how an item is that it has
 */
export type ApiAnswer =
  | {
      readonly kind: 'result';
      readonly status: number;
      /** Media type that the flow sets; null: none, it depends on the result and the caller. */
      readonly contentType: string | null;
      readonly stage: ApiStage | null;
    }
  | { readonly kind: 'parts' | 'stored' | 'state' };

export interface ApiEndpoint {
  /** `get`, `post`, ... */
  readonly method: string;
  /** As Express takes it, with `:name`, below the root of all endpoints. */
  readonly url: string;
  /** '' where it has none. */
  readonly name: string;
  readonly info: string;
  readonly tab: { readonly label: string; readonly info: string };
  readonly inputs: readonly ApiInput[];
  readonly answers: readonly ApiAnswer[];
  /** Which gates there are on the way. */
  readonly gates: 'none' | 'memory' | 'durable';
  /** Files may be sent along, as a form. */
  readonly takesFiles: boolean;
}

/** All there is to describe. */
export interface Api {
  readonly title: string;
  readonly version: string;
  /** Path of all endpoints: '/' or one without a slash at its end. */
  readonly root: string;
  readonly endpoints: readonly ApiEndpoint[];
}

export type JsonObject = Readonly<Record<string, unknown>>;
