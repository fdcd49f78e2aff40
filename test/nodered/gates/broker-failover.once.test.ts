/** A broker fails over to another server behind its address, while all connections stay open: everything goes on. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { FailoverPair } from '../../fixtures/failover.ts';
import { collector, dispatchGate, endpoint, httpOut, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { startHost } from '../../fixtures/headless.ts';
import { useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { WITHOUT_REDIS } from '../../fixtures/redis.ts';
import { REMOTE, SECRET } from '../../fixtures/remote.ts';

const COUNT = 200;
/** Share of the items after which the server is demoted. */
const FIRST = 20;

const red = useNodeRed();

describe('a broker that fails over', { skip: WITHOUT_REDIS }, () => {
  test('a remote stage answers again, and a durable gate ends all that it accepted', async (t) => {
    const pair = await FailoverPair.start(t);
    t.after(() => red.deploy([]));
    await red.deploy([
      TAB,
      runtime('runtime', { name: 'remote', broker: 'broker' }),
      {
        id: 'broker',
        type: 'modelet-broker',
        name: '',
        url: pair.url,
        prefix: 'modelet',
        tls: '',
        credentials: { secret: SECRET },
      },
      ...endpoint('/ask', 'asked'),
      stage('asked', 'return { of: input.n };', 'answer', REMOTE),
      httpOut('answer'),
      ...endpoint('/jobs', 'gate'),
      dispatchGate('gate', 'work', 'accepted', { store: 'durable', maxSys: '2', capacity: 10_000 }),
      httpOut('accepted'),
      stage('work', 'await new Promise((resolve) => setTimeout(resolve, 10)); return input.n;', 'done'),
      collector('done', 'out'),
      sink('out'),
    ]);
    const out = red.inputs('out');
    const secretFile = join(folderFor(t), 'secret');
    writeFileSync(secretFile, SECRET);
    startHost(t, '--broker', pair.url, '--runtime', 'remote', '--secret-file', secretFile);
    const answers = async (n: number): Promise<boolean> => {
      const response = await red.post('/ask', { n });
      const body = (await response.json()) as { of?: number };
      assert.ok(response.status === 503 || body.of === n, JSON.stringify(body));
      return response.status === 200;
    };
    await until('the remote stage answers', () => answers(0));

    const done = (): Set<unknown> => new Set(out.map(({ payload }) => payload));
    const accept = async (n: number): Promise<void> => {
      await until(`${n} is accepted`, async () => {
        const response = await red.post('/jobs', { n });
        await response.arrayBuffer();
        return response.status === 202;
      });
    };
    const numbers = Array.from({ length: COUNT }, (_, n) => n);
    await Promise.all(numbers.slice(0, COUNT / 2).map(accept));
    await until('some are done', () => done().size >= FIRST);
    await pair.failOver();
    await Promise.all(numbers.slice(COUNT / 2).map(accept));
    await until('the remote stage answers again', () => answers(1));
    await until('all are done', () => done().size === COUNT);
    const { gates } = await red.snapshot();
    assert.equal(gates[0]?.store?.error, null);
  });
});
