/** An outcome that is an error brings the value that the failing stage was given, unless that entered the route. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { StageDefinition } from '../../src/config/stage-definition.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { decodeFailure } from '../../src/wire/frames/failures.ts';
import type { FakePool } from './fake-pool.ts';
import { Rig, route, stage } from './rig.ts';

/** Two stages; the first turns the item with number N into `made N`. */
async function twoStages(second: Partial<StageDefinition> = {}): Promise<Rig> {
  const rig = new Rig();
  await rig.apply({ stages: [stage(1), stage(2, second)], routes: [route(1, [1, 2])] });
  rig.pool(1).makes = ({ id }) => ({ codec: CODEC.json, bytes: Buffer.from(`"made ${id}"`) });
  return rig;
}

/** `code: value` for each outcome, without a value where the server has it. */
function failures({ outcomes }: Rig): string[] {
  return outcomes.splice(0).map(({ ok, payload }) => {
    assert.equal(ok, false);
    const { error, input } = decodeFailure(payload);
    return input ? `${error.code}: ${Buffer.from(input.bytes)}` : error.code;
  });
}

async function passFirst(rig: Rig): Promise<void> {
  while (rig.pool(1).held().length > 0) {
    rig.pool(1).answer(0);
    await rig.turn();
  }
}

interface Ending {
  readonly name: string;
  readonly second?: Partial<StageDefinition>;
  readonly limitMs?: number;
  end(rig: Rig, pool: FakePool): void;
  readonly expected: readonly string[];
}

const ENDINGS: readonly Ending[] = [
  {
    name: 'is lost with its worker',
    end: (_rig, pool) => pool.lose(0),
    expected: ['worker_lost: "made 1"'],
  },
  {
    name: 'is dropped from the queue',
    end: (rig) => rig.engine.act(2, 'reset'),
    expected: ['dropped: "made 2"', 'dropped: "made 3"'],
  },
  {
    name: 'expires in the queue',
    limitMs: 100,
    end: (rig, pool) => {
      rig.clock.advance(200);
      pool.answer(0);
    },
    expected: ['deadline_exceeded: "made 2"', 'deadline_exceeded: "made 3"'],
  },
  {
    name: 'waits for a stage that gives up',
    end: (_rig, pool) => pool.fail('given up'),
    expected: ['stage_unavailable: "made 2"', 'stage_unavailable: "made 3"'],
  },
];

describe('the server gets the value that waited at the second stage when an item', () => {
  for (const { name, second, limitMs, end, expected } of ENDINGS) {
    test(name, async () => {
      const rig = await twoStages(second);
      await rig.submit([1, 2, 3], limitMs ? { deadline: rig.clock.now() + limitMs } : {});
      await passFirst(rig);
      assert.deepEqual(rig.pool(2).held(), [[1]]);
      end(rig, rig.pool(2));
      await rig.turn();
      rig.outcomes.splice(0, rig.outcomes.length, ...rig.outcomes.filter(({ ok }) => !ok));
      assert.deepEqual(failures(rig), expected);
    });
  }

  test('shares the run of another', async () => {
    const rig = await twoStages({ cache: { entries: 10, maxBytes: 1000, ttlMs: 0 } });
    rig.pool(1).makes = () => ({ codec: CODEC.json, bytes: Buffer.from('"the same"') });
    await rig.submit([1, 2]);
    await passFirst(rig);
    rig.pool(2).lose(0);
    await rig.turn();
    assert.deepEqual(failures(rig), ['worker_lost: "the same"', 'worker_lost: "the same"']);
  });
});

test('the engine does not send a value back that came from the server', async () => {
  const rig = await twoStages();
  await rig.submit([1]);
  rig.pool(1).lose(0);
  await rig.turn();
  assert.deepEqual(failures(rig), ['worker_lost']);
});
