/** Bugs that could be in the shared memory for large payloads; see edits.ts. */
import type { Mutation } from './edits.ts';

const CHAIN = {
  suite: 'wire/handed-slots',
  test: 'results are the same at the end of a chain, whether each is read, shared, dropped or run again on the way',
};

export const SLOT_MUTATIONS: readonly Mutation[] = [
  {
    bug: 'a slot that is handed on is given back while a worker reads it',
    file: 'src/wire/slots/parent-slots.ts',
    find: 'for (const { slot } of handed.values()) slot.hold();',
    replace: '',
    ...CHAIN,
  },
  {
    bug: 'a copy of a result is freed with the result',
    file: 'src/wire/slots/held-bytes.ts',
    find: "if (this.#state.tag === 'read') this.#state.chunks.free();",
    replace: "if (this.#state.tag === 'read') this.#state = { tag: 'gone' };",
    ...CHAIN,
  },
  {
    bug: 'an outcome is written over a request that a worker still reads',
    file: 'src/wire/slots/engine-slots.ts',
    find: 'if (!slot?.room || slot.isRead) return null;',
    replace: 'if (!slot?.room) return null;',
    suite: 'wire/request-slots',
    test: 'a request stays in its slot while a worker reads it, also if it has an outcome or is cancelled',
  },
  {
    bug: 'payloads that wait in slots do not count as memory that a collection frees',
    file: 'src/wire/slots/held-bytes.ts',
    find: 'held += length;',
    replace: '',
    suite: 'process/garbage-collection',
    test: 'payloads that were dropped in their slots are garbage, and a collection gives the slots back',
  },
  {
    bug: 'the slot of an outcome is never given back',
    file: 'src/wire/slots/parent-slots.ts',
    find: "return there.length > 0 ? { type: 'freed', body: there } : null;",
    replace: 'return null;',
    suite: 'wire/request-slots',
    test: 'an outcome that is in the slot of a worker stays there until it has been read',
  },
];
