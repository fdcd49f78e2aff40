/**
 * Bugs that could be in the runtime, each as an edit of one of its files, and the test that each must turn red. They
 * are made in a copy by `npm run mutations`, never in the product.
 */
import { HTTP_MUTATIONS } from './http-edits.ts';

export interface Mutation {
  /** What is wrong then. */
  readonly bug: string;
  /** Below the repository's root. */
  readonly file: string;
  /** Text that must be in the file exactly once, and what stands there instead. */
  readonly find: string;
  readonly replace: string;
  /** Below `test`, without `.test.ts`. */
  readonly suite: string;
  /** Name of the test that notices. */
  readonly test: string;
}

export const MUTATIONS: readonly Mutation[] = [
  {
    bug: 'a request settles twice',
    file: 'src/server/ledger.ts',
    find: 'this.#tell(() => request.caller.onSettled(settlement));',
    replace: 'for (const _ of [1, 2]) this.#tell(() => request.caller.onSettled(settlement));',
    suite: 'server/ledger',
    test: 'any interleaving settles each request once, and everything adds up',
  },
  {
    bug: 'the items of a dead worker do not fail',
    file: 'src/engine/stage/stage.ts',
    find: 'this.#host.onFailed(item, workerLost(this.name, worker, error, wasAlone));',
    replace: 'void [item, worker, workerLost];',
    suite: 'faults/worker.once',
    test: 'kill -9 in the middle of a batch',
  },
  {
    bug: 'what was sent ahead to a dead worker is forgotten',
    file: 'src/engine/stage/stage.ts',
    find: 'this.#queue.putBack(this.#end(notStarted));',
    replace: 'this.#end(notStarted);',
    suite: 'processes/worker-death',
    test: 'gives back what was sent ahead to the worker, in its old order',
  },
  {
    bug: 'the first item of a queue never expires there',
    file: 'src/engine/stage/stage-queue.ts',
    find: 'const expired = this.#removeAll((item) => item.deadline <= now);',
    replace:
      'const [first] = this.#items;\n    const expired = this.#removeAll((item) => item !== first && item.deadline <= now);',
    suite: 'engine/stage-queue',
    test: 'after a sweep nothing expired can be taken, the item put back included',
  },
  {
    bug: 'the deadline of closing is forgotten',
    file: 'src/process/parent/child-life.ts',
    find: "this.send({ type: 'close', body: { deadline } });\n    this.#killAt(deadline);",
    replace: "this.send({ type: 'close', body: { deadline } });",
    suite: 'processes/shutdown',
    test: 'one deadline for all, however many do not listen',
  },
  {
    bug: 'a dead process is started again without a pause',
    file: 'src/process/parent/supervisor.ts',
    find: 'const until = this.#clock.now() + pause;',
    replace: 'const until = this.#clock.now() + pause * 0;',
    suite: 'process/supervisor',
    test: 'start ends the pause before a restart, and the pauses begin anew',
  },
  {
    bug: 'each restart leaves a listener behind',
    file: 'src/process/parent/child-process.ts',
    find: 'this.#process = launch(spec);',
    replace: "this.#process = launch(spec);\n    process.on('exit', () => this.kill(null));",
    suite: 'faults/engine.once',
    test: 'kill -9',
  },
  {
    bug: 'the timer of each settled request stays',
    file: 'src/server/ledger.ts',
    find: 'request.timer?.cancel();',
    replace: '',
    suite: 'faults/worker.once',
    test: 'kill -9 in the middle of a batch',
  },
  {
    bug: 'what the workers of a dead engine have started lives on',
    file: 'src/server/service.ts',
    find: 'if (pid !== null) killGroup(pid);',
    replace: 'if (pid === -1) killGroup(pid);',
    suite: 'processes/engine-death',
    test: 'ends what its workers have started, too',
  },
  {
    bug: 'the time-out of a run is ignored',
    file: 'src/engine/pools/supervised-worker.ts',
    find: 'this.#supervisor.kill(new RunTimeout(runTimeoutMs));',
    replace: 'void RunTimeout;',
    suite: 'faults/worker.once',
    test: 'infinite loop, with runTimeoutMs',
  },
  {
    bug: 'retryLost runs the lost items together again',
    file: 'src/engine/stage/stage.ts',
    find: 'this.#queue.putBack(this.#end(running.filter(again)), true);',
    replace: 'this.#queue.putBack(this.#end(running.filter(again)), false);',
    suite: 'processes/retry-lost.once',
    test: 'by exit, with retryLost: seven results, one worker_lost, and nothing else is held up',
  },
  {
    bug: 'a response cache keeps what an older modelet made',
    file: 'src/engine/stage/single-flight.ts',
    find: 'this.#cache?.clear();',
    replace: '',
    suite: 'engine/single-flight-model',
    test: 'requests settle once, with what their own input makes now, through faults, deploys and restarts',
  },
  {
    bug: 'requests share the run of an older worker after a restart',
    file: 'src/engine/stage/single-flight.ts',
    find: 'if (current) {',
    replace: 'if (current || !current) {',
    suite: 'engine/response-cache',
    test: 'a restart begins with nothing, and what the workers before it make is not kept',
  },
  {
    bug: 'who shares a run goes with the one that began it',
    file: 'src/engine/stage/single-flight.ts',
    find: 'if (run.isWanted) return null;',
    replace: 'if (run.isWanted && request !== run.item) return null;',
    suite: 'engine/single-flight',
    test: 'the request that began a run may be cancelled: the run goes on for the others that share it',
  },
  {
    bug: 'nobody minds that the engine is silent',
    file: 'src/process/parent/supervisor.ts',
    find: 'onSilent: (seconds) => this',
    replace: 'onSilent: (seconds) => seconds > 0 || this',
    suite: 'faults/engine.once',
    test: 'stands still (SIGSTOP), while a worker spins in synchronous code',
  },
  {
    bug: 'the circuit never opens',
    file: 'src/engine/pools/circuit.ts',
    find: 'if (deaths.length < CIRCUIT.deaths) {',
    replace: 'if (deaths.length < CIRCUIT.deaths * 1000) {',
    suite: 'processes/circuit.once',
    test: 'open the circuit: what comes is refused at once, with the cause and when to come again',
  },
  {
    bug: 'a gate is open at equality of budget and baseline',
    file: 'src/gate/admission/budget.ts',
    find: 'return clampBudget(budget) - baseline > EPSILON;',
    replace: 'return clampBudget(budget) - baseline >= -EPSILON;',
    suite: 'gate/budget',
    test: 'closed at equality, and open just above it, for every F and B in steps of 0.01',
  },
  {
    bug: 'a gate computes N in plain floating point',
    file: 'src/gate/admission/budget.ts',
    find: 'Math.floor(exact + slack)',
    replace: 'Math.floor(exact)',
    suite: 'gate/budget',
    test: 'N is exact in every case whose exact answer is a whole number',
  },
  {
    bug: 'a lease of a gate does not end at its time',
    file: 'src/gate/leases.ts',
    find: 'this.#clock.at(oldest.admittedAt + this.#leaseMs, () =>',
    replace: 'this.#clock.at(Number.POSITIVE_INFINITY, () =>',
    suite: 'gate/gate',
    test: 'ends a lease of which nothing was heard, tells so, and lets the next in',
  },
  {
    bug: 'a gate lets go of a request and counts nothing (pop instead of lease)',
    file: 'src/gate/leases.ts',
    find: 'this.#cost += cost;',
    replace: '',
    suite: 'gate/properties',
    test: 'in flight stays within N and the ceiling, in order, on news that is new enough; all ends once, answered once',
  },
  {
    bug: 'a gate gives a member no lease back',
    file: 'src/gate/admission/admission.ts',
    find: 'for (const { of, id } of held.shares) of.end(id, end);',
    replace: '',
    suite: 'gate/composite',
    test: 'takes a lease of every member or of none, and gives all back at once',
  },
  {
    bug: 'any sample opens a gate after a refusal',
    file: 'src/gate/admission/refusal-latch.ts',
    find: 'at <= this.#state.refusedAt',
    replace: 'at <= 0 * this.#state.refusedAt',
    suite: 'gate/properties',
    test: 'in flight stays within N and the ceiling, in order, on news that is new enough; all ends once, answered once',
  },
  {
    bug: 'a gate sends N again on every reading of the same news',
    file: 'src/gate/admission/admission.ts',
    find: 'return this.#history.lowest(',
    replace: 'return this.#leases.cost + 0 * this.#history.lowest(',
    suite: 'gate/overshoot',
    test: 'what others send beside them is left its place, as long as it keeps to it',
  },
  {
    bug: 'a gate does not mind how old its sample is',
    file: 'src/gate/admission/gate-state.ts',
    find: 'now - sample.at > rule.staleMs',
    replace: 'now - sample.at > rule.staleMs * 1000',
    suite: 'gate/properties',
    test: 'in flight stays within N and the ceiling, in order, on news that is new enough; all ends once, answered once',
  },
  {
    bug: 'a gate passes over who is too large',
    file: 'src/gate/gate.ts',
    find: '      if (!lease) return;',
    replace:
      '      if (!lease) {\n        this.#room.leave(place);\n        this.#room.enter(place.value, place.priority, place.deadline);\n        return;\n      }',
    suite: 'gate/properties',
    test: 'in flight stays within N and the ceiling, in order, on news that is new enough; all ends once, answered once',
  },
  {
    bug: 'saving a file as it was gives its stage new workers',
    file: 'src/engine/pools/hot-edit.ts',
    find: ' && hash !== before)',
    replace: ')',
    suite: 'engine/file-watch',
    test: 'a save of the same content, a file that is cut off and a file that comes back as it was are no news',
  },
  {
    bug: 'a deploy goes back behind what has been saved since',
    file: 'src/engine/pools/stage-pools.ts',
    find: 'this.#successor = this.#revision === this.#present.revision ? null',
    replace:
      "const [deployed] = this.#revision.split(' ');\n    this.#successor = this.#present.revision.startsWith(deployed + ' ') && this.#successor ? null",
    suite: 'engine/hot-edit',
    test: 'going back to what was deployed before does not go back behind what was saved since',
  },
  {
    bug: 'a stored item ends when it is sent on, before anything was done with it',
    file: 'src/node-red/gate/durable/durable-room.ts',
    find: 'this.#runs.set(lease.id, { claim, timer });',
    replace:
      "this.#runs.set(lease.id, { claim, timer });\n    void this.#conclude(claim, { kind: 'ack', ok: true, result: null });",
    suite: 'nodered/durable-gate',
    test: 'tries again what fails, and makes it a dead letter that is shown and can be driven again',
  },
  {
    bug: 'who has lost the lease of a stored item can end it all the same',
    file: 'src/store/process/sqlite-statements.ts',
    find: 'AND token = ? RETURNING attempts`',
    replace: "AND ? <> '' RETURNING attempts`",
    suite: 'store/conformance',
    test: 'SQLite: who has lost a lease has no say in what becomes of the item',
  },
  {
    bug: 'what is claimed of a store never comes back by itself',
    file: 'src/store/process/sqlite-queue.ts',
    find: 'const lease = [token, this.#time.now() + leaseMs, leaseMs];',
    replace: 'const lease = [token, Number.MAX_SAFE_INTEGER, leaseMs];',
    suite: 'store/conformance',
    test: 'SQLite: a lease that ends counts an attempt, and what it held is claimed alone',
  },
  {
    bug: 'new code is described as the code before it',
    file: 'src/engine/stage/stage.ts',
    find: 'isDeepStrictEqual(description, this.#description)',
    replace: '(this.#description && isDeepStrictEqual(1, 1))',
    suite: 'engine/deploys',
    test: 'what a modelet says of itself is told once, and again where new code that serves says something else',
  },
  {
    bug: 'references within a schema do not follow it into the OpenAPI document',
    file: 'src/openapi/embed.ts',
    find: 'at + fragment(pointer)',
    replace: "(at && '#') + fragment(pointer)",
    suite: 'openapi/embed',
    test: 'definitions of its own, by pointers',
  },
  {
    bug: 'endpoints of other runtimes are described in public',
    file: 'src/node-red/admin/api.ts',
    find: 'services === null || runtimes',
    replace: 'shown.size > 0 || runtimes',
    suite: 'nodered/openapi',
    test: 'below the path of a runtime are the endpoints of that one',
  },
  {
    bug: 'what a replaced node still sends reaches nobody',
    file: 'src/node-red/handover/succession.ts',
    find: 'for (const node of replaced) this.#bequeath',
    replace: 'for (const node of replaced.slice(0, 0)) this.#bequeath',
    suite: 'nodered/deploys-of-shapes.long',
    test: 'a Full deploy of unchanged flows answers every client of all shapes with its own result',
  },
  ...HTTP_MUTATIONS,
];
