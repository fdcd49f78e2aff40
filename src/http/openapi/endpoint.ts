/** Facts about an HTTP endpoint that leads to a pipeline, from which its description is built. Interfaces only. */
import type { PayloadSchema } from '../../core/model.ts';

/** A stage that reads a request's input, or produces the result in its answer. */
export interface ApiStage {
  readonly name: string;
  /** Message property that the stage reads or writes. `payload` is the body, or for GET the query. */
  readonly property: string;
  /** Schema of the property; null: anything, or not known. */
  readonly schema: PayloadSchema | null;
  /** Whether no node between the stage and HTTP may change the message. */
  readonly direct: boolean;
}

/** A first stage that a request reaches. */
export interface ApiInput extends ApiStage {
  /** Media types of the body in lower case; may be ranges such as `image/*`. */
  readonly mediaTypes: readonly string[];
  /** Valid inputs, as the modelet declares them. */
  readonly examples: readonly unknown[];
}

/**
 * A possible answer to a request, besides errors:
 *
 *   result  the result of a stage; a flow that answers by itself has none
 *   stream  the result of a stage, part by part, in a known form
 *   parts   the result of a stage, part by part; it is not known how the flow sends the parts
 *   stored  a durable gate has stored the request, and the answer says where to ask for the result
 *   state   a durable gate reports the state of an item that it has
 */
export type ApiAnswer =
  | {
      readonly kind: 'result';
      readonly status: number;
      /** Media type that the flow sets; null: the flow sets none, and the type depends on the result and the caller. */
      readonly contentType: string | null;
      readonly stage: ApiStage | null;
    }
  | {
      readonly kind: 'stream';
      readonly status: number;
      /** Media types that the answer may have. */
      readonly contentTypes: readonly string[];
    }
  | { readonly kind: 'parts' | 'stored' | 'state' };

export interface ApiEndpoint {
  /** `get`, `post`, ... */
  readonly method: string;
  /** Path in the form of Express, with `:name`, below the root of all endpoints. */
  readonly url: string;
  /** Name of the endpoint; '' if it has none. */
  readonly name: string;
  readonly info: string;
  readonly tab: { readonly label: string; readonly info: string };
  readonly inputs: readonly ApiInput[];
  readonly answers: readonly ApiAnswer[];
  /** Kind of gates that a request passes. */
  readonly gates: 'none' | 'memory' | 'durable';
  /** URL in front of the path, for clients behind a proxy; '': that of all endpoints. */
  readonly baseUrl: string;
  readonly needsKey: boolean;
  /** Most rows of a body, of which each has its own result; 0: a body has one result. */
  readonly maxRows: number;
  /** Whether a form may bring files. */
  readonly takesFiles: boolean;
}

/** All endpoints to describe, and the document's title, version and root. */
export interface Api {
  readonly title: string;
  readonly version: string;
  /** Root path of all endpoints: '/', or a path without a slash at its end. */
  readonly root: string;
  readonly endpoints: readonly ApiEndpoint[];
}

export type JsonObject = Readonly<Record<string, unknown>>;
