/** The command `modelet`: its report and exit codes, and a server that answers through deaths and until its last request. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { isAlive } from '../../fixtures/alive.ts';
import { RawClient } from '../../fixtures/endpoint.ts';
import { Scrape } from '../../fixtures/exposition.ts';
import type { FileNode } from '../../fixtures/file-flows.ts';
import { asNobody, modelet, numberIn, QUICK_START_FILE, serveFlows } from '../../fixtures/headless.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9 } from '../../fixtures/processes.ts';
import { makeWheel, WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';

const folder = mkdtempSync(join(tmpdir(), 'modelet-headless-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const { images } = JSON.parse(readFileSync(join(repositoryRoot, 'assets/data/digits-test.json'), 'utf8')) as {
  images: { image: number[]; label: number }[];
};

function begun(gate: string): string {
  return `${gate}.begun`;
}

/** An endpoint whose stage waits until a file is there. */
function slowFlow(gate: string): string {
  const code = `const { existsSync, writeFileSync } = await import('node:fs');
writeFileSync(${JSON.stringify(begun(gate))}, '');
while (!existsSync(${JSON.stringify(gate)})) await new Promise((resolve) => setTimeout(resolve, 5));
return input;`;
  return write([
    { id: 'rt', type: 'modelet-runtime', name: 'slow' },
    { id: 'a', type: 'tab', label: 'a' },
    { id: 'p', type: 'http in', z: 'a', x: 1, y: 1, method: 'post', url: '/slow', wires: [['s']] },
    { id: 's', type: 'modelet-stage', z: 'a', x: 1, y: 1, name: 'wait', runtime: 'rt', code, wires: [['r']] },
    { id: 'r', type: 'http response', z: 'a', x: 1, y: 1, wires: [] },
  ]);
}

/** Writes a key and a self-signed certificate. Returns false if that is not possible here. */
function makeCertificate(key: string, cert: string): boolean {
  const made = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', cert, '-days', '2'];
  const name = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
  return spawnSync('openssl', [...made, ...name]).status === 0;
}

/** A runtime with `POST /<name>`, which answers with its input. */
function echoFlow(name: string, more: { readonly runtime?: object; readonly stage?: object } = {}): FileNode[] {
  const [rt, at] = [`rt ${name}`, { z: 'a', x: 1, y: 1 }];
  return [
    { id: rt, type: 'modelet-runtime', name, ...more.runtime },
    { id: `in ${name}`, type: 'http in', ...at, method: 'post', url: `/${name}`, wires: [[`s ${name}`]] },
    {
      ...{ id: `s ${name}`, type: 'modelet-stage', ...at, name, runtime: rt, code: 'return input;' },
      ...{ wires: [[`out ${name}`]], ...more.stage },
    },
    { id: `out ${name}`, type: 'http response', ...at, wires: [] },
  ];
}

const TAB: FileNode = { id: 'a', type: 'tab', label: 'a' };

function write(flow: readonly FileNode[]): string {
  const file = join(folder, `${Math.random()}.json`);
  writeFileSync(file, JSON.stringify(flow));
  return file;
}

function post(url: string, value: unknown, more: Readonly<Record<string, string>> = {}): Promise<Response> {
  const headers = { 'Content-Type': 'application/json', ...more };
  return fetch(url, { method: 'POST', headers, body: JSON.stringify(value) });
}

describe('modelet check', () => {
  test('prints what is served, what is refused and what is left out', async () => {
    const { code, output } = await modelet('check', QUICK_START_FILE);
    assert.equal(code, 1, output);
    assert.match(output, /POST +\/predict\/digits +digits +normalise > classify +2 > 1/);
    assert.match(output, /Refused:\n.*\n +GET \/digits +it leads to no modelet stage\n/);
    assert.match(output, /inject "a seven" +an inject node runs in Node-RED only/);
  });

  test('exits with 0 if everything in the flows can run', async () => {
    const { code, output } = await modelet('check', join(repositoryRoot, 'examples', 'Digits in Python.json'));
    assert.equal(code, 0, output);
    assert.doesNotMatch(output, /Refused/);
  });

  test('refuses by name, and exits with 1', async () => {
    const { code, output } = await modelet('check', join(repositoryRoot, 'examples', 'Asynchronous endpoint.json'));
    assert.equal(code, 1);
    assert.match(output, /POST \/examples\/jobs +a dispatch gate stands before the first stage/);
    assert.match(output, /modelet-gate "jobs" +a dispatch gate does not run without Node-RED/);
    assert.match(output, /No endpoint can be served/);
  });

  const wrong: readonly (readonly [args: string[], said: RegExp])[] = [
    [[], /the command is serve, check, measure or worker/],
    [['deploy', QUICK_START_FILE], /the command is serve, check, measure or worker, not deploy/],
    [['check'], /check needs one file or folder of flows/],
    [['check', join(folder, 'nowhere')], /there is no file or folder/],
    [['check', QUICK_START_FILE, '--runtime', 'other'], /no runtime with stages is called other; there are: digits/],
    [['check', QUICK_START_FILE, '--port', '1'], /Unknown option '--port'/],
    [['serve', QUICK_START_FILE, '--listen', 'here:there'], /--listen must be a port/],
    [['measure', QUICK_START_FILE, '--install'], /measure serves nothing: --install belongs to serve/],
    [['measure', QUICK_START_FILE, '--runtime', 'digits'], /--runtime belongs to serve and check/],
    [['measure', QUICK_START_FILE, '--rate', 'many'], /--rate needs a number above 0, not many/],
    [['measure', QUICK_START_FILE, '--stage', 'other'], /no stage is called other; there are: normalise, classify/],
    [['worker', '--runtime', 'default'], /worker needs --broker and --runtime/],
    [['worker', '--broker', 'redis://127.0.0.1:1', '--runtime', 'default'], /--secret-file, or --code local/],
  ];
  for (const [args, said] of wrong) {
    test(`${args.map((arg) => arg.slice(-12)).join(' ') || 'no arguments'}: exits with 2`, async () => {
      const { code, errors } = await modelet(...args);
      assert.deepEqual([code, said.test(errors)], [2, true], errors);
    });
  }
});

describe('modelet serve', () => {
  test('does not start if nothing can be served, or the address is taken', async () => {
    const nothing = await modelet('serve', write([{ id: 'a', type: 'tab' }]));
    assert.equal(nothing.code, 1);
    assert.match(nothing.output, /no endpoint can be served/);
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as { port: number };
    const taken = await modelet('serve', QUICK_START_FILE, '--listen', `127.0.0.1:${port}`);
    other.close();
    assert.equal(taken.code, 1);
    assert.match(taken.output, new RegExp(`port ${port} is in use`));
  });

  test('answers the quick start, its health, metrics and description, and goes on after kill -9', async (t) => {
    const { url, log, child, ended } = await serveFlows(t, QUICK_START_FILE);
    const [{ image, label } = { image: [], label: -1 }] = images;
    const digit = async (): Promise<unknown> => {
      const answer = await post(`${url}/predict/digits`, { image });
      assert.equal(answer.status, 200);
      return ((await answer.json()) as { digit: number }).digit;
    };
    assert.equal(await digit(), label);
    assert.equal((await fetch(`${url}/health/live`)).status, 200);
    const metrics = await (await fetch(`${url}/metrics`)).text();
    assert.match(metrics, /modelet_requests_total\{runtime="digits",code="ok"\} 1/);
    assert.match(metrics, /\nprocess_resident_memory_bytes \d+/);
    const document = (await (await fetch(`${url}/openapi.json`)).json()) as { paths: object };
    assert.deepEqual(Object.keys(document.paths), ['/predict/digits', '/mine']);

    const classifier = (): number => {
      const records = log().filter(({ stage }) => stage === 'classify');
      return numberIn(records, /^ready, pid (\d+)/);
    };
    const first = await until('the worker is ready', classifier);
    kill9(first);
    await until('another worker is ready', () => classifier() !== first);
    assert.equal(await digit(), label);

    // After the second death in a row the supervisor pauses before it starts another engine.
    for (const times of [2, 3]) {
      const engine = numberIn(log(), /^engine ready, pid (\d+)/);
      kill9(engine);
      await until('another engine is ready', () => numberIn(log(), /^engine ready, pid (\d+)/) !== engine);
      await until(
        'it listens again',
        () => log().filter(({ message }) => /^listening at/.test(String(message))).length === times,
      );
    }
    const port = numberIn(log(), /^listening at http:\/\/127\.0\.0\.1:(\d+)/);
    const again = await post(`http://127.0.0.1:${port}/predict/digits`, { image });
    assert.equal(((await again.json()) as { digit: number }).digit, label);

    child.kill('SIGINT');
    assert.equal(await ended, 0);
  });

  test('SIGTERM: answers what is open, takes nothing new, leaves no process and exits with 0', async (t) => {
    const gate = join(folder, 'open');
    const { url, log, child, ended } = await serveFlows(t, slowFlow(gate));
    const answer = post(`${url}/slow`, { n: 1 });
    await until('the request is open', () => existsSync(begun(gate)));
    child.kill('SIGTERM');
    await assert.rejects(async () => {
      for (;;) await (await fetch(`${url}/health/live`, { headers: { Connection: 'close' } })).text();
    });
    writeFileSync(gate, '');
    const open = await answer;
    assert.deepEqual([open.status, await open.json()], [200, { n: 1 }]);
    assert.equal(await ended, 0);
    assert.ok(!isAlive(numberIn(log(), /^ready, pid (\d+)/)));
  });

  test('serves one of several runtimes, which must be named', async (t) => {
    const flows = write([TAB, ...echoFlow('one'), ...echoFlow('two'), ...echoFlow('bad', { stage: { workers: 'x' } })]);
    const both = await modelet('serve', flows);
    assert.equal(both.code, 1);
    assert.match(both.output, /the settings of nodes behind HTTP-in nodes are not valid/);
    const unnamed = await modelet('serve', write([TAB, ...echoFlow('one'), ...echoFlow('two')]));
    assert.equal(unnamed.code, 1);
    assert.match(unnamed.output, /several runtimes have endpoints, choose one by --runtime: one, two/);
    const twins = [...echoFlow('one'), ...echoFlow('two', { runtime: { name: 'one' } })];
    const alike = await modelet('serve', write([TAB, ...twins]), '--runtime', 'one');
    assert.equal(alike.code, 1);
    assert.match(alike.output, /choose one by --runtime: rt one, rt two/);
    const { url, log } = await serveFlows(t, flows, '--runtime', 'two');
    assert.deepEqual(await (await post(`${url}/two`, { n: 1 })).json(), { n: 1 });
    assert.equal((await post(`${url}/one`, {})).status, 404);
    const documented = (await (await fetch(`${url}/openapi.json`)).json()) as { paths: object };
    assert.deepEqual(Object.keys(documented.paths), ['/two']);
    const ready = await until('the log has its worker', () => {
      const found = log().filter(({ message }) => /^ready, pid/.test(String(message)));
      return found.length > 0 && found;
    });
    assert.deepEqual(new Set(ready.map(({ stage }) => stage)), new Set(['two']));
  });

  test('logs a failed request with its id, as an error and at level debug', async (t) => {
    const code = "throw new Error('broken');";
    const flows = write([TAB, ...echoFlow('fails', { runtime: { logLevel: 'debug' }, stage: { code } })]);
    const { url, log } = await serveFlows(t, flows);
    const headers = { 'Content-Type': 'application/json', 'X-Request-Id': 'mine-7' };
    assert.equal((await fetch(`${url}/fails`, { method: 'POST', headers, body: '{}' })).status, 500);
    const found = await until('both are logged', () => {
      const records = log().filter(({ message }) => String(message).startsWith('modelet_failed: '));
      return records.length === 2 && records;
    });
    const { stack = '', ...fields } = (found[1]?.['fields'] ?? {}) as Record<string, unknown>;
    assert.match(String(stack), /^Error: broken\n +at fails: Predict:1:7\n/);
    const common = { code: 'modelet_failed', requestId: 'mine-7' };
    const shown = found.map(({ level, stage, message }) => `${level} ${stage} ${message}`);
    assert.deepEqual(shown, ['debug fails modelet_failed: broken', 'error fails modelet_failed: broken (Predict:1:7)']);
    assert.deepEqual([found[0]?.['fields'], fields], [common, { ...common, place: 'Predict:1:7' }]);
  });

  test('lets in the clients of a keys file alone, and counts them by name', async (t) => {
    const runtime = { keys: 'keys', baseUrl: 'https://api.example.com/v1/' };
    const flows = write([TAB, { id: 'keys', type: 'modelet-keys', clients: [] }, ...echoFlow('one', { runtime })]);
    const [good, bad, misspelt] = ['keys.json', 'bad-keys.json', 'misspelt.json'].map((name) => join(folder, name));
    assert.ok(good && bad && misspelt);
    const clients = [
      { name: 'app', key: 'the-key-of-the-app' },
      { name: 'slow', sha256: createHash('sha256').update('the-key-of-the-slow').digest('hex'), rate: 0.001 },
      { name: 'elsewhere', key: 'the-key-of-elsewhere', paths: ['/two'] },
    ];
    writeFileSync(good, JSON.stringify(clients));
    writeFileSync(bad, '[{ "name": "app", "key": "too-secret" }]');
    writeFileSync(misspelt, '[{ "name": "app", "key": "the-key-of-the-app", "rates": 1 }]');
    const [without, wrong, unknown, { url }] = await Promise.all([
      modelet('serve', flows),
      modelet('serve', flows, '--keys-file', bad),
      modelet('serve', flows, '--keys-file', misspelt),
      serveFlows(t, flows, '--keys-file', good),
    ]);
    assert.match(without.output, /its runtime asks for keys.*--keys-file/);
    assert.match(wrong.output, /app needs a key of 16 to 512/);
    assert.doesNotMatch(wrong.output, /too-secret/);
    assert.match(unknown.output, /app has a property \\"rates\\", which is unknown/);
    assert.deepEqual([without.code, wrong.code, unknown.code], [1, 1, 1]);
    const ask = (key: string): Promise<Response> => post(`${url}/one`, { n: 1 }, { 'X-API-Key': key });
    assert.equal((await post(`${url}/one`, {})).status, 401);
    const statuses: number[] = [];
    for (const key of ['wrong', 'elsewhere', 'app', 'slow', 'slow']) {
      statuses.push((await ask(`the-key-of-${key === 'elsewhere' ? key : `the-${key}`}`)).status);
    }
    assert.deepEqual(statuses, [401, 403, 200, 200, 429]);
    const headers = { Authorization: 'Bearer the-key-of-the-app' };
    const scrape = new Scrape(await (await fetch(`${url}/metrics`, { headers })).text());
    const counted = { none: ['401', 2], elsewhere: ['403', 1], app: ['200', 1], slow: ['429', 1] } as const;
    for (const [client, [status, count]] of Object.entries(counted)) {
      assert.equal(scrape.value('modelet_client_requests_total', { client, status }), count, client);
    }
    const { servers } = (await (await fetch(`${url}/openapi.json`, { headers })).json()) as { servers: object[] };
    assert.deepEqual(servers[0], { url: 'https://api.example.com/v1' });
  });

  test('serves HTTPS by the files of a tls-config node, and says which it cannot use', async (t) => {
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
    if (!makeCertificate(key, cert) && process.env['CI'] !== 'true') {
      t.skip('no openssl found');
      return;
    }
    const flows = (tls: object): string =>
      write([
        TAB,
        { id: 'tls', type: 'tls-config', name: 'own', ...tls },
        ...echoFlow('one', { runtime: { tls: 'tls' } }),
      ]);
    const { url } = await serveFlows(t, flows({ key, cert, ca: '' }));
    assert.match(url, /^https:/);
    const sent = request(`${url}/one`, {
      ...{ method: 'POST', headers: { 'Content-Type': 'application/json' }, ca: readFileSync(cert) },
      ...{ servername: 'localhost', agent: false },
    });
    sent.end('{"n":4}');
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    assert.equal((await buffer(answer)).toString(), '{"n":4}');
    const port = Number(new URL(url).port);
    const plain = new RawClient(port).send('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    await plain.closed;
    assert.equal(plain.received, '', 'a client without TLS gets nothing');

    const bad = join(folder, 'bad.pem');
    writeFileSync(bad, 'no certificate');
    const other = join(folder, 'other.pem');
    makeCertificate(other, join(folder, 'unused.pem'));
    const rows: readonly (readonly [tls: object, said: RegExp])[] = [
      [
        { key: join(folder, 'missing.pem'), cert },
        /TLS configuration \\"own\\" has a file that cannot be read: ENOENT/,
      ],
      [{ cert: '', key: '' }, /TLS configuration \\"own\\" has no files for key and certificate/],
      [{ key, cert: bad }, /cannot listen at 127\.0\.0\.1:0: .*PEM/i],
      [{ key: other, cert }, /cannot listen at 127\.0\.0\.1:0: .*key values mismatch/],
    ];
    for (const [tls, said] of rows) {
      const { code, output } = await modelet('serve', flows(tls), '--listen', '127.0.0.1:0');
      assert.equal(code, 1, output);
      assert.match(output, said);
    }
  });

  test('does not start where it may not listen', async () => {
    chmodSync(folder, 0o755);
    const flows = write([TAB, ...echoFlow('one')]);
    const locked = mkdtempSync(join(tmpdir(), 'modelet-locked-'));
    after(() => rmSync(locked, { recursive: true, force: true }));
    chmodSync(locked, 0o500);
    const file = join(folder, 'a file');
    writeFileSync(file, 'kept');
    const lowest = Number(readFileSync('/proc/sys/net/ipv4/ip_unprivileged_port_start', 'utf8'));
    const rows: readonly (readonly [address: string, said: RegExp])[] = [
      [`unix:${join(locked, 'engine.sock')}`, /engine\.sock: permission denied \(EACCES\)/],
      ...(lowest > 1
        ? ([['127.0.0.1:1', /cannot listen at 127\.0\.0\.1:1: permission denied \(EACCES\)/]] as const)
        : []),
    ];
    for (const [address, said] of rows) {
      const { code, output } = await asNobody('serve', flows, '--listen', address);
      assert.equal(code, 1, output);
      assert.match(output, said);
    }
    const { code, output } = await modelet('serve', flows, '--listen', `unix:${file}`);
    assert.equal(code, 1, output);
    assert.match(output, /a file: there is a file that is no socket \(EADDRINUSE\)/);
    assert.equal(readFileSync(file, 'utf8'), 'kept');
  });

  test('a second signal ends it at once, its workers too', async (t) => {
    const gate = join(folder, 'never');
    const { url, log, child, ended } = await serveFlows(t, slowFlow(gate));
    const answer = post(`${url}/slow`, { n: 1 }).catch(() => null);
    await until('the request is open', () => existsSync(begun(gate)));
    const worker = numberIn(log(), /^ready, pid (\d+)/);
    child.kill('SIGTERM');
    await until('it has heard the first', () => log().some(({ message }) => /^SIGTERM/.test(String(message))));
    child.kill('SIGTERM');
    assert.equal(await ended, 143);
    await answer;
    await until('the worker has ended', () => !isAlive(worker));
  });
});

describe('modelet serve --install', { skip: WITHOUT_PYTHON }, () => {
  /** A folder with flows, a Python file that needs a package, and its requirements. Its virtual environment takes long. */
  const place = join(folder, 'needy');
  before(() => {
    mkdirSync(place);
    writeFileSync(
      join(place, 'model.py'),
      'import nobody\ndef predict(value):\n    return {"from": nobody.__name__}\n',
    );
    writeFileSync(join(place, 'requirements.txt'), '--no-index\n--find-links .\nnobody\n');
    const stage = { source: 'python', path: 'model.py' };
    writeFileSync(join(place, 'flows.json'), JSON.stringify([TAB, ...echoFlow('needs', { stage })]));
  });

  test('ends with the reason if it cannot, and without it the error names it', async (t) => {
    const { code, output } = await modelet('serve', join(place, 'flows.json'), '--listen', '127.0.0.1:0', '--install');
    assert.equal(code, 1);
    assert.match(output, /requirements\.txt of the stage needs is not installed: .*No matching distribution/s);
    const serving = await serveFlows(t, join(place, 'flows.json'));
    const told = (): boolean =>
      serving.log().some(({ message }) => /No module named 'nobody' \(.*modelet serve --install/.test(String(message)));
    await until('the log says how to install it', told);
  });

  test('installs the requirements of a Python file before it serves', async (t) => {
    makeWheel(place, 'nobody');
    const { url } = await serveFlows(t, join(place, 'flows.json'), '--install');
    const answer = await post(`${url}/needs`, {});
    assert.deepEqual(await answer.json(), { from: 'nobody' });
  });
});
