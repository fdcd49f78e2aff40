/** The alert rules and the dashboard name metrics and labels that there are, in expressions that Prometheus can read. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { ERROR_CODES } from '../../src/core/errors.ts';
import { METRICS } from '../../src/observe/export/metrics.ts';
import { folderFor } from '../fixtures/folder.ts';
import { promtool, WITHOUT_PROMETHEUS } from '../fixtures/prometheus.ts';
import { repositoryRoot } from '../fixtures/repository.ts';

const folder = join(repositoryRoot, 'assets', 'monitoring');
const rules = readFileSync(join(folder, 'alerts.yml'), 'utf8');

interface Dashboard {
  readonly panels: readonly { readonly title: string; readonly targets?: readonly { readonly expr: string }[] }[];
  readonly annotations: { readonly list: readonly { readonly expr: string }[] };
  readonly templating: { readonly list: readonly { readonly query: string | { readonly query: string } }[] };
}

const dashboard = JSON.parse(readFileSync(join(folder, 'grafana-dashboard.json'), 'utf8')) as Dashboard;
const expressions = [
  ...dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
  ...dashboard.annotations.list.map(({ expr }) => expr),
];

/** Names of series, as far as a metric has them. */
const SERIES: ReadonlyMap<string, readonly string[]> = new Map(
  METRICS.flatMap(({ name, type, labels }) => {
    const own = ['runtime', ...labels];
    const parts: [string, string[]][] = [
      [`${name}_bucket`, [...own, 'le']],
      [`${name}_sum`, own],
      [`${name}_count`, own],
    ];
    return type === 'histogram' ? parts : [[name, own] as [string, string[]]];
  }),
);

/** The errors in the metrics and labels that a text names. */
function unknown(text: string): string[] {
  return [...text.matchAll(/\b(modelet_\w+)(?:\{([^}]*)\})?/g)].flatMap(([, name = '', selectors = '']) => {
    const labels = SERIES.get(name);
    if (!labels) return [name];
    const selected = [...selectors.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label = '']) => label);
    return selected.filter((label) => !labels.includes(label)).map((label) => `${name}{${label}}`);
  });
}

describe('examples: monitoring', () => {
  test('the rules and the dashboard name only existing metrics and labels', () => {
    assert.ok(rules.includes('modelet_requests_total') && expressions.length > 20);
    assert.deepEqual([rules, ...expressions, JSON.stringify(dashboard.templating)].flatMap(unknown), []);
    assert.deepEqual(unknown('rate(modelet_request_total{code="x"}[1m]) / modelet_backlog{stage="x"}'), [
      'modelet_request_total',
      'modelet_backlog{stage}',
    ]);
  });

  test('the rules and the dashboard name only existing error codes', () => {
    for (const [, codes = ''] of `${rules} ${expressions.join(' ')}`.matchAll(/\bcode(?:=~|!~|!=|=)"([^"]*)"/g)) {
      for (const code of codes.split('|')) assert.ok(['ok', ...ERROR_CODES].includes(code), code);
    }
  });

  test('the dashboard shows every metric for people', () => {
    const shown = expressions.join(' ');
    const left = METRICS.map(({ name }) => name).filter((name) => !shown.includes(name));
    assert.deepEqual(left, [
      'modelet_client_requests_total',
      'modelet_late_outcomes_total',
      'modelet_queue_capacity',
      'modelet_cache_entries',
      'modelet_taps_total',
      'modelet_metrics_dropped_total',
      'modelet_workers_busy',
      'modelet_batches_running',
      'modelet_worker_state',
      'modelet_deploy_handovers_total',
      'modelet_engine_state',
      'modelet_frames_total',
    ]);
  });

  test('promtool can read the rules', { skip: WITHOUT_PROMETHEUS }, () => {
    assert.equal(promtool(['check', 'rules', join(folder, 'alerts.yml')]), '');
  });

  test('promtool can read the expressions of the dashboard', { skip: WITHOUT_PROMETHEUS }, (t) => {
    const recorded = expressions.map((expr, index) => ({
      record: `panel:${index}`,
      // Grafana puts in what begins with a dollar.
      expr: expr.replaceAll('$__rate_interval', '5m').replaceAll('$runtime', '.*'),
    }));
    const file = join(folderFor(t), 'rules.yml');
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'dashboard', rules: recorded }] }));
    assert.equal(promtool(['check', 'rules', file]), '');
  });

  test('the alerts fire when their condition holds, and not before', { skip: WITHOUT_PROMETHEUS }, (t) => {
    const series = {
      'modelet_workers_ready{runtime="r",stage="s"}': '1 1 0x10',
      'modelet_requests_total{runtime="r",code="ok"}': '0+100x20',
      'modelet_requests_total{runtime="r",code="modelet_failed"}': '0+20x20',
      'modelet_queue_length{runtime="r",stage="s"}': '90x20',
      'modelet_queue_capacity{runtime="r",stage="s"}': '100x20',
      'modelet_circuit_state{runtime="r",stage="s",state="open"}': '0 0 1x10',
    };
    const file = join(folderFor(t), 'test.yml');
    const input_series = Object.entries(series).map(([name, values]) => ({ series: name, values }));
    /** Those of the alerts that fire at a time: promtool complains where none is expected. */
    const firing = (eval_time: string): string[] =>
      [...rules.matchAll(/alert: (\w+)/g)].flatMap(([, alertname = '']) => {
        const alert_rule_test = [{ alertname, eval_time, exp_alerts: [] }];
        const tests = [{ interval: '1m', input_series, alert_rule_test }];
        writeFileSync(file, JSON.stringify({ rule_files: [join(folder, 'alerts.yml')], tests }));
        const said = promtool(['test', 'rules', file]);
        assert.ok(said === '' || said.includes('got:'), said);
        return said === '' ? [] : [alertname];
      });
    assert.deepEqual(firing('1m'), []);
    assert.deepEqual(firing('12m'), [
      'ModeletStageHasNoWorker',
      'ModeletCircuitOpen',
      'ModeletErrors',
      'ModeletQueueNearlyFull',
    ]);
  });
});
