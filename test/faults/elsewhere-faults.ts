/** Faults that tests of other folders inject, because they check more about them. */

export interface ElsewhereFault {
  readonly name: string;
  readonly requests: string;
  readonly recovery: string;
  /** Below `test`, without `.test.ts`, and the test's name in it. */
  readonly suite: string;
  readonly test: string;
}

export const ELSEWHERE_FAULTS: readonly ElsewhereFault[] = [
  {
    name: 'the package is updated on disk, then a worker dies',
    requests: 'those of its batch: `worker_lost`; the other workers serve all others, as they are',
    recovery: 'the stage says "package updated: restart Node-RED"',
    suite: 'processes/package-update.once',
    test: 'the worker to be replaced reports the update, and the other one serves on',
  },
  {
    name: 'the package is updated on disk, then the last worker dies',
    requests: '`stage_unavailable`, with that reason',
    recovery: 'Node-RED is started again, or the files are back',
    suite: 'processes/package-update.once',
    test: 'a stage without a worker answers stage_unavailable, and serves again when the files are back',
  },
  {
    name: 'the package is updated on disk, then the engine dies',
    requests: '`engine_lost`, with that reason',
    recovery: 'Node-RED is started again',
    suite: 'processes/package-update.once',
    test: 'an engine that died does not start again, and requests get engine_lost with the reason',
  },
  {
    name: 'kill -9 of Node-RED, of the engine and of the process of a store, with a durable gate',
    requests: 'what was accepted is worked on; twice only what was in flight; one end for each',
    recovery: 'what was not ended comes again, one at a time, when Node-RED runs again',
    suite: 'nodered/durable-kills.long',
    test: 'every accepted message runs and ends once, except that messages in flight may run again',
  },
  {
    name: 'the process of a store dies again and again',
    requests: 'none notices: what was asked of it is asked of the next one',
    recovery: 'started again with back-off',
    suite: 'store/queue-client',
    test: 'loses nothing and fails no call while it is killed again and again',
  },
  {
    name: 'a stored message kills each worker that gets it',
    requests: 'none but itself: after the first death it runs alone',
    recovery: 'after `maxAttempts` it is a dead letter, shown and to be driven again',
    suite: 'nodered/durable-gate.shared',
    test: 'runs a message that kills its worker alone, and makes it a dead letter',
  },
  {
    name: 'the disk is full',
    requests: 'new ones: `store_unavailable`; what is stored stays, and leases hold',
    recovery: 'by itself when there is room',
    suite: 'store/store-faults',
    test: 'a store whose file cannot grow fails with a coded error, writes nothing in part, and goes on afterwards',
  },
  {
    name: 'the file of a store is damaged',
    requests: '`store_unavailable`, which names the file',
    recovery: 'none by itself: the file stays as it is, and is never made anew',
    suite: 'store/store-faults',
    test: 'is refused if its structure is damaged anywhere',
  },
  {
    name: 'a bit of a stored message flips on disk',
    requests: 'none but that one, which is a dead letter',
    recovery: 'the others go on',
    suite: 'store/store-faults',
    test: 'a flipped bit in a payload makes that item a dead letter, and the others go on',
  },
  {
    name: 'the file of a store is in use by another process',
    requests: '`store_unavailable`',
    recovery: 'by itself when that process has ended',
    suite: 'store/store-faults',
    test: 'is refused while another process uses it, and taken over when that has ended',
  },
  {
    name: 'the file of a store may not be written',
    requests: '`store_unavailable`',
    recovery: 'by itself when it may',
    suite: 'store/store-faults',
    test: 'is refused if it cannot be written',
  },
  {
    name: '`predict` sorts or empties the array of inputs that it got',
    requests: 'none notices: `postprocess` gets each result with the input of its own request',
    recovery: 'none needed',
    suite: 'worker/run-batch',
    test: 'postprocess gets the input of its own request',
  },
  {
    name: 'a modelet writes all its results into the same Buffer or array',
    requests: 'none notices: each gets its own result',
    recovery: 'none needed',
    suite: 'worker/run-batch',
    test: 'when predict writes all results of a batch of single items into the same Buffer or typed array',
  },
  {
    name: 'a worker ends, and a process that it started holds its channel open',
    requests: 'those of its batch: `worker_lost`, as soon as it has exited; what it had sent counts',
    recovery: 'a new process, at once',
    suite: 'processes/child-process',
    test: 'a child that ends is dead at once and all its frames have arrived, though ',
  },
  {
    name: 'no `/proc`, no launch helpers, an empty `PATH`',
    requests: 'none notices',
    recovery: 'not needed; nothing is pinned',
    suite: 'processes/bare-machine',
    test: 'a runtime serves without launch helpers and with an empty PATH, ',
  },
  {
    name: 'Node-RED runs with `--inspect` or `--inspect-brk` in `NODE_OPTIONS`',
    requests: 'none notices',
    recovery: 'not needed: children do not inherit it',
    suite: 'processes/environment',
    test: 'does not reach its children, other options do',
  },
  {
    name: 'a modelet returns an object without data, such as a handle of a library or a Promise',
    requests: '`modelet_failed`, which says what to return',
    recovery: 'none needed',
    suite: 'nodered/http-results.shared',
    test: 'fails and tells its author what to return',
  },
  {
    name: 'the file of a store is moved away under load, and moved back',
    requests: '`store_unavailable` while it is away, which says how to recover; nothing is accepted',
    recovery: 'by itself when it is back, with all that was accepted',
    suite: 'nodered/durable-lost',
    test: 'is moved away under load: the gate closes and says so everywhere, and loses nothing when it is back',
  },
  {
    name: 'the file of a store is deleted under load, then Node-RED is killed',
    requests: '`store_unavailable`, before the kill and after the next start',
    recovery: 'somebody puts a file back, or deletes the marker beside it to begin anew',
    suite: 'nodered/durable-lost',
    test: 'is deleted under load, then Node-RED is killed: the next start creates no file until the marker is deleted',
  },
  {
    name: 'the file of a store is replaced by another while it serves',
    requests: '`store_unavailable`',
    recovery: 'the file is put back, or the marker beside it deleted to take the other',
    suite: 'store/store-lost',
    test: 'is replaced by an old copy: refused, also by the next process, until the marker is deleted',
  },
  {
    name: 'the log of a store is deleted after a kill -9',
    requests: '`store_unavailable`: what was committed last is in there',
    recovery: 'by itself when the log is back',
    suite: 'store/store-lost',
    test: 'is refused if it lost its log after a kill -9, because the log has the last commits',
  },
  {
    name: 'an HTTP client stops reading a result that comes in parts',
    requests: 'its own waits, with its generator, until it reads on, leaves, or the deadline passes; the others go on',
    recovery: 'Node-RED keeps a few parts of it in memory, however many it could have had',
    suite: 'nodered/stalled-clients',
    test: 'a client that does not read stops its generator and not the others, and Node-RED does not grow',
  },
  {
    name: 'an ONNX model has an output that its runtime cannot return (`ZipMap` of scikit-learn)',
    requests: '`stage_unavailable`, which says how to export the model',
    recovery: 'the model is exported anew',
    suite: 'processes/onnx',
    test: 'does not start, and says how to export it: no output vanishes',
  },
  {
    name: 'the code of a stage cannot be loaded: a syntax error, a missing file, module, interpreter or model',
    requests: '`stage_unavailable`, "does not start: ...", at once',
    recovery: 'when its file changes, at a deploy, or by *Restart workers*; the log has one message',
    suite: 'processes/startup',
    test: 'is reported in one message and not tried again, while a failing setup is',
  },
  {
    name: 'requests fail by the hundred, and nobody catches them',
    requests: 'each its own error',
    recovery: 'not needed: the log has the first five, then one line per 10 s',
    suite: 'nodered/log',
    test: 'are logged in full at first and then as a sum, if nobody catches them',
  },
  {
    name: 'a deploy replaces every node around a pipeline while 64 clients post',
    requests: 'each gets its own result',
    recovery: 'messages wait while flows restart, and go to the nodes that bear the ids',
    suite: 'nodered/deploys-of-shapes.long',
    test: 'Modified nodes, with every node replaced',
  },
  {
    name: 'a deploy takes away the HTTP response, a wire to it, or the tab, while clients wait',
    requests: '`shutting_down`, at once',
    recovery: 'none is needed',
    suite: 'nodered/ways-deployed-away',
    test: 'in a function that waits for something else',
  },
  {
    name: 'a deploy replaces what is behind a paced split',
    requests: 'each item comes through once',
    recovery: 'the split goes on',
    suite: 'nodered/paced-split-deploys.once',
    test: 'behind it is replaced by Modified nodes',
  },
];
