/**
 * Real clients that offer HTTP/2 in clear text with each request, as far as this machine has them, are answered at every
 * place. What they send is in http-standards.test.ts as raw bytes.
 */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { RawClient } from '../../fixtures/endpoint.ts';
import { endpoint, func, httpIn, httpOut, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { serveFlows } from '../../fixtures/headless.ts';
import { engineUrl } from '../../fixtures/node-red.ts';
import { NodeRedProcess } from '../../fixtures/node-red-process.ts';
import { until } from '../../fixtures/polling.ts';

const run = promisify(execFile);

const FLOWS = [
  ...[TAB, runtime('runtime', { listen: '127.0.0.1:0' })],
  ...endpoint('/predict', 'echo'),
  stage('echo', 'return input.length;', 'collector /predict'),
  ...[httpIn('in flow', '/flow', 'pass'), func('pass', 'return msg;', 'drawn')],
  ...[stage('drawn', 'return input.length;', 'out flow'), httpOut('out flow')],
];

/** curl announces the larger body with `Expect: 100-continue` beside its offer. */
const BODIES = ['"small"', `"${'x'.repeat(1_500_000)}"`];
const LENGTHS = BODIES.map((body) => body.length - 2);

interface Client {
  readonly name: string;
  readonly isThere: () => boolean;
  /** Posts each body as JSON. Returns `status length` of the answers. */
  readonly post: (url: string, files: readonly string[]) => Promise<string[]>;
}

const JAVA = `
import java.net.URI;
import java.net.http.*;
import java.nio.file.Path;
import java.time.Duration;

public class Offers {
  public static void main(String[] args) throws Exception {
    HttpClient client = HttpClient.newHttpClient();
    for (int at = 1; at < args.length; at++) {
      HttpRequest request = HttpRequest.newBuilder(URI.create(args[0]))
          .timeout(Duration.ofSeconds(60))
          .header("Content-Type", "application/json")
          .POST(HttpRequest.BodyPublishers.ofFile(Path.of(args[at])))
          .build();
      HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
      System.out.println(answer.statusCode() + " " + answer.body());
    }
  }
}
`;

const CLIENTS: readonly Client[] = [
  {
    name: 'a raw client',
    isThere: () => true,
    post: async (url) => {
      const { port, pathname } = new URL(url);
      const answers: string[] = [];
      for (const body of BODIES) {
        const offer = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n';
        const length = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
        const client = new RawClient(Number(port)).send(
          `POST ${pathname} HTTP/1.1\r\nHost: x\r\n${offer}${length}\r\n`,
        );
        client.send(body);
        const found = await until('it is answered', () => /HTTP\/1\.1 (\d+)[\s\S]*\r\n\r\n(\d+)/.exec(client.received));
        answers.push(`${found[1]} ${found[2]}`);
        client.socket.destroy();
      }
      return answers;
    },
  },
  {
    name: 'curl --http2',
    isThere: () => /^Features:.* HTTP2\b/m.test(spawnSync('curl', ['--version'], { encoding: 'utf8' }).stdout ?? ''),
    post: async (url, files) => {
      const answers: string[] = [];
      for (const file of files) {
        const type = ['-H', 'Content-Type: application/json'];
        const shown = ['-s', '-w', ' %{http_code}', '--max-time', '60'];
        const { stdout } = await run('curl', ['--http2', ...shown, ...type, '--data-binary', `@${file}`, url]);
        answers.push(stdout.split(' ').reverse().join(' '));
      }
      return answers;
    },
  },
  {
    name: "Java's client",
    isThere: () => /^javac (1[1-9]|[2-9]\d)/.test(spawnSync('javac', ['-version'], { encoding: 'utf8' }).stdout ?? ''),
    post: async (url, files) => {
      const { stdout } = await run('java', [join(folder, 'Offers.java'), url, ...files]);
      return stdout.trim().split('\n');
    },
  },
];

let folder: string;
let red: NodeRedProcess;
const places: (readonly [name: string, url: string])[] = [];
const ends: (() => unknown)[] = [];

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'modelet-http2-'));
  red = await NodeRedProcess.start(FLOWS);
  await red.whenReady();
  writeFileSync(join(folder, 'Offers.java'), JAVA);
  const file = join(folder, 'flows.json');
  writeFileSync(file, JSON.stringify(FLOWS));
  const served = await serveFlows({ after: (end: never) => ends.push(end) } as never, file);
  places.push(
    ["Node-RED's port", `${red.url}/predict`],
    ["Node-RED's port, through the flow", `${red.url}/flow`],
    ['the listener', `${await engineUrl(red)}/predict`],
    ['modelet serve', `${served.url}/predict`],
  );
});
after(async () => {
  await red.end();
  for (const end of ends) await end();
  rmSync(folder, { recursive: true, force: true });
});

test('clients that offer HTTP/2 in clear text are answered everywhere', async (t) => {
  const files = BODIES.map((body, at) => {
    const file = join(folder, `${at}.json`);
    writeFileSync(file, body);
    return file;
  });
  const expected = LENGTHS.map((length) => `200 ${length}`);
  for (const client of CLIENTS.filter(({ isThere }) => isThere())) {
    t.diagnostic(`with ${client.name}`);
    for (const [place, url] of places) {
      assert.deepEqual(await client.post(url, files), expected, `${client.name}, ${place}`);
    }
  }
});
