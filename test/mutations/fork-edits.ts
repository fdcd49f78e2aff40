/** Bugs that could be in routes that fork or choose; see edits.ts. */
import type { Mutation } from './edits.ts';

export const FORK_MUTATIONS: readonly Mutation[] = [
  {
    bug: 'the other branches run on when one has failed',
    file: 'src/runtime/engine/routes/forks.ts',
    find: 'for (const branch of this.#open.keys()) this.#host.drop(branch);',
    replace: 'void this.#host.drop;',
    suite: 'engine/forks',
    test: 'a branch that fails is the error of the gathering node, and the others are cancelled',
  },
  {
    bug: 'an error in front of a fork is no outcome of its branches',
    file: 'src/runtime/engine/routes/router.ts',
    find: "if (next?.kind !== 'fork') {",
    replace: "if (next?.kind !== 'fork' || next) {",
    suite: 'engine/forks',
    test: 'an error in front of the fork is the outcome of every branch',
  },
  {
    bug: 'branches that came in time are lost at the deadline of the request',
    file: 'src/runtime/engine/routes/forks.ts',
    find: 'item.deadline - BEFORE_DEADLINE_MS',
    replace: 'item.deadline + BEFORE_DEADLINE_MS',
    suite: 'engine/forks',
    test: 'the time is up after the first branch has come, and just before the deadline of the request',
  },
  {
    bug: 'one full way of a switch holds all others back',
    file: 'src/runtime/engine/routes/router.ts',
    find: "if (next?.kind === 'choice') return following.some",
    replace: "if (next?.kind === 'choice') return following.every",
    suite: 'engine/forks',
    test: 'while one way is full, items go on that another way may take',
  },
  {
    bug: 'a gather that others feed is compiled into one route',
    file: 'src/flow/joins.ts',
    find: '!isWhole || !sendersTo(graph, gather).every(({ id }) => ends.includes(id))',
    replace: '!isWhole || ends.length < 0',
    suite: 'flow/legs',
    test: 'the route ends before messages from elsewhere, and says why',
  },
  {
    bug: 'all items of a list are on their way at once',
    file: 'src/runtime/engine/routes/lists.ts',
    find: ' && this.#open.size < most',
    replace: ' && most > 0',
    suite: 'engine/lists',
    test: 'no more items of a list wait than the workers take, so another request is in the next batch',
  },
  {
    bug: 'a switch that drops messages is compiled',
    file: 'src/flow/read/switch-rules.ts',
    find: "if (last?.operator !== 'else')",
    replace: 'if (!last)',
    suite: 'flow/switch-rules',
    test: 'the engine cannot follow a switch node without a last rule "otherwise"',
  },
  {
    bug: 'the report of a gather does not reach the message',
    file: 'src/node-red/request/messages.ts',
    find: '  msg.branches = branches;',
    replace: '  void branches;',
    suite: 'nodered/endpoints/compiled-branches',
    test: 'one fails',
  },
];
