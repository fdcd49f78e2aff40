/** Settings of a stage that has keys: the messages that belong together, and the states that it keeps for them. */
import { type NodeSchema, TIME } from './node-schema.ts';

export const keySettings = {
  keyBy: {
    goesTo: 'modelet',
    type: 'string',
    default: '',
    format: 'property',
    icon: 'id-badge',
    description:
      'Message property that is the key of a message: `topic`, or `req.headers.NAME` for a header. Messages with the same key run one after another, in order of arrival, in the same worker, where `ctx.state` is the key’s own object. Blank: no keys',
  },
  keyIdleMs: {
    ...{ ...TIME, goesTo: 'modelet', default: 600_000, minimum: 1000 },
    icon: 'clock-o',
    description: 'How long a key without messages keeps its state, in ms. `onKeyEnd` gets the state then',
  },
  stateKb: {
    ...{ goesTo: 'modelet', type: 'integer', default: 64, minimum: 1, maximum: 1_048_576 },
    icon: 'archive',
    unit: 'kB',
    description:
      'Largest state of a key, in kB as a result would have. A message that leaves a larger state fails, and the state is dropped',
  },
  keySnapshotMb: {
    ...{ goesTo: 'modelet', type: 'integer', default: 0, minimum: 0, maximum: 512 },
    icon: 'life-ring',
    unit: 'MB',
    description:
      'Most memory for snapshots of the states, in MB: a key keeps the state that its last answered message has left when its worker dies or is replaced, or Node-RED is stopped and started. 0: no snapshots',
  },
} as const satisfies NodeSchema['properties'];
