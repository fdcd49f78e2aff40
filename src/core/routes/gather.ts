/** Gathering the branches of a message or an item: on what terms, and what came of it. Plain data. */
import type { ErrorCode } from '../errors.ts';

/** When the branches of a message are enough. */
export interface GatherTerms {
  /** `list`: the branches are the items of a list, which only the engine has. */
  readonly mode: 'all' | 'first' | 'quorum' | 'list';
  /** As configured; 0: more than half of the branches. */
  readonly quorum: number;
  readonly partial: 'error' | 'keep';
  readonly total: number;
  /** Names of all branches, for the error of a gather that lacks some; empty if only the messages know them. */
  readonly names: readonly string[];
  /** Present if `mode` is `list`. */
  readonly list?: ListTerms;
}

export interface ListTerms {
  /** `results`: the value is the list of the results. `pairs`: each result stands beside its item. */
  readonly form: 'results' | 'pairs';
  /** Most items of one list. */
  readonly maxItems: number;
}

/** Returns how many results end a gather. */
export function neededOf({ mode, quorum, total }: Pick<GatherTerms, 'mode' | 'quorum' | 'total'>): number {
  if (mode === 'first') return 1;
  if (mode === 'all' || mode === 'list') return total;
  return quorum === 0 ? Math.floor(total / 2) + 1 : quorum;
}

export type BranchOutcome =
  | { readonly ok: true }
  | { readonly ok: false; readonly code: ErrorCode; readonly message: string };

/** The report of the gathering nodes of a route on one request. Crosses to the server as JSON, with the outcome. */
export interface GatherReport {
  /** The nodes that gathered, in order. */
  readonly gathered: readonly {
    readonly node: number;
    /** Number of the request's timings at that time. The last of them are those of the branches. */
    readonly passed: number;
    /** Number of timings of each branch that had come; of a list, only those of the item that took longest. */
    readonly branches: readonly number[];
  }[];
  /** Outcomes of the branches at the last of them, by name; of the items of a list, those that failed, by index. */
  readonly branches: Readonly<Record<string, BranchOutcome>>;
  /** The node whose branches were not enough, so that the request failed, or null. */
  readonly failed: number | null;
  /** From a worker host: the snapshot that an item has left of the state of its key, in base64. */
  readonly state?: string;
}
