/** A gate that asks a real Prometheus: for what is free, for how much there is in all, and how often it is scraped. */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { collector, dispatchGate, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { MockGateway } from '../../fixtures/mock-gateway.ts';
import { useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { Prometheus, WITHOUT_PROMETHEUS } from '../../fixtures/prometheus.ts';

describe('a gate that asks Prometheus', { skip: WITHOUT_PROMETHEUS }, () => {
  let gateway: MockGateway;
  let prometheus: Prometheus;
  const red = useNodeRed({
    prepare: async () => {
      gateway = await MockGateway.start({ servers: 2, 'max-concurrency': 2 });
      prometheus = await Prometheus.start({ gateway: `${gateway.url}/metrics` });
      const query = 'gateway_saturation';
      asking = {
        source: 'prometheus',
        url: prometheus.url,
        query,
        maxSysQuery: '2 * gateway_servers_ready',
        maxSys: '',
      };
    },
    flows: () => [
      TAB,
      runtime(),
      dispatchGate('follows', 'work', [], asking),
      // Prometheus scrapes once a second.
      dispatchGate('impatient', 'work', [], { ...asking, staleMs: 400 }),
      stage('work', 'return input;', 'done'),
      collector('done', []),
    ],
  });
  let asking: Record<string, unknown>;

  after(async () => {
    await prometheus?.stop();
    await gateway?.stop();
  });

  test('adapts N as servers come and go, and closes if max_SYS cannot be read', async () => {
    const quotaIs = (quota: number) => async (): Promise<boolean> => (await red.gate('follows')).quota === quota;
    await until('two servers count', quotaIs(4));
    await gateway.control({ servers: 3 });
    await until('three servers count', quotaIs(6));
    assert.match((await red.gate('follows')).source.raw ?? '', /max_SYS 6$/);
    await gateway.control({ servers: 0 });
    await until('the gate closes', async () => !(await red.gate('follows')).open);
    assert.match(
      (await red.gate('follows')).why,
      /^closed: max_SYS: a capacity must be a positive number, not 0; opens when PromQL at /,
    );
    await gateway.control({ servers: 2 });
    await until('two servers count again', quotaIs(4));
  });

  test('says in its badge and dialog that scrapes are rarer than the largest age of a sample', async () => {
    await until('the badge says so', () =>
      /^(?:stale before the next scrape|closed: scraped every 1(?:\.\d)? s)/.test(
        red.badges.get('impatient')?.text ?? '',
      ),
    );
    await until('the dialog says so', async () => {
      const response = await fetch(`${red.url}/admin/modelets/gates/impatient`);
      const { warnings } = (await response.json()) as { readonly warnings: readonly string[] };
      return warnings.some((warning) =>
        /^scraped every .*; make "Maximum sample age" more than twice the interval$/.test(warning),
      );
    });
    assert.doesNotMatch(red.badges.get('follows')?.text ?? '', /scrape/);
  });

  test('is tested with both of its expressions', async () => {
    const answer = await until('both are read', async () => {
      const response = await red.post('/admin/modelets/gates/test', asking);
      const reading = (await response.json()) as {
        readonly ok: boolean;
        readonly sample?: { readonly maxSys?: number };
      };
      return reading.ok && reading;
    });
    assert.equal(answer.sample?.maxSys, 4);
    const response = await red.post('/admin/modelets/gates/test', { ...asking, maxSysQuery: 'no_such_metric' });
    const { ok, reason } = (await response.json()) as { readonly ok: boolean; readonly reason: string };
    assert.deepEqual([ok, reason], [false, 'max_SYS: the metric is missing: the query returned no series']);
  });
});
