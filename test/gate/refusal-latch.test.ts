/** Every event in every state of the latch. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type LatchState, RefusalLatch } from '../../src/gate/admission/refusal-latch.ts';

const NOW = 1000;
const STATES: Readonly<Record<LatchState['tag'], () => RefusalLatch>> = {
  clear: () => new RefusalLatch(),
  'needs-sample': () => {
    const latch = new RefusalLatch();
    latch.refuse(NOW, 500);
    return latch;
  },
  'needs-time': () => {
    const latch = STATES['needs-sample']();
    latch.see(NOW + 1, NOW + 1);
    return latch;
  },
};

type Event = readonly [string, (latch: RefusalLatch) => void, Readonly<Record<LatchState['tag'], LatchState['tag']>>];
const EVENTS: readonly Event[] = [
  [
    'a refusal',
    (latch) => latch.refuse(NOW + 10, 0),
    { clear: 'needs-sample', 'needs-sample': 'needs-sample', 'needs-time': 'needs-sample' },
  ],
  [
    'a newer sample before the time',
    (latch) => latch.see(NOW + 20, NOW + 20),
    { clear: 'clear', 'needs-sample': 'needs-time', 'needs-time': 'needs-time' },
  ],
  [
    'a newer sample after the time',
    (latch) => latch.see(NOW + 500, NOW + 500),
    { clear: 'clear', 'needs-sample': 'clear', 'needs-time': 'needs-time' },
  ],
  [
    'a sample of the same moment',
    (latch) => latch.see(NOW, NOW + 900),
    { clear: 'clear', 'needs-sample': 'needs-sample', 'needs-time': 'needs-time' },
  ],
  [
    'the time',
    (latch) => latch.pass(NOW + 500),
    { clear: 'clear', 'needs-sample': 'needs-sample', 'needs-time': 'clear' },
  ],
  [
    'less than the time',
    (latch) => latch.pass(NOW + 499),
    { clear: 'clear', 'needs-sample': 'needs-sample', 'needs-time': 'needs-time' },
  ],
];

for (const tag of Object.keys(STATES) as LatchState['tag'][]) {
  describe(tag, () => {
    for (const [name, happen, then] of EVENTS) {
      test(`${name}: ${then[tag]}`, () => {
        const latch = STATES[tag]();
        assert.equal(latch.state.tag, tag);
        happen(latch);
        assert.equal(latch.state.tag, then[tag]);
      });
    }
  });
}
