/**
 * Runs `node-red-dev validate`, the scorecard of flows.nodered.org. It is downloaded for each run, because it would more
 * than double the packages of this repository.
 */
import { type ExecFileException, execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

const VERSION = '0.1.6';
/** Points that the package does not get, each with the reason. */
export const ARGUED: Readonly<Record<string, string>> = {
  D01:
    'At most 6 dependencies: there are 8, each with a separate use, which CONTRIBUTING.md lists. Together with theirs ' +
    'they are 29 packages; none has a native part that it needs, or a script that runs when it is installed.',
  D03:
    'The newest major version of each dependency: undici 8 does not run on Node.js 20, which Node-RED 4.1 supports. A new ' +
    'major version of another dependency is work for the next release and must not fail a change that has nothing to do with it.',
};
const CATALOGUE = 'https://catalogue.nodered.org/catalogue.json';

/** Results by point, such as `D01`, each with what was found. */
export type Scorecard = Readonly<Record<string, { readonly test: boolean }>>;

export interface Validation {
  readonly scorecard: Scorecard;
  readonly output: string;
  /** Whether the catalogue of all published nodes was there; if not, nothing was compared with it. */
  readonly hasCatalogue: boolean;
}

/** Validates the package in `target`. Works in `folder`. */
export async function validate(target: string, folder: string, npm: string): Promise<Validation> {
  const place = join(folder, 'scorecard');
  await mkdir(place);
  await writeFile(join(place, 'package.json'), '{"private":true,"allowScripts":{"core-js":false}}');
  const quiet = ['--no-audit', '--no-fund', '--ignore-scripts', '--prefer-offline', '--loglevel=error'];
  await runNode([npm, 'install', ...quiet, `node-red-dev@${VERSION}`], place);
  const catalogue = await fetchCatalogue();
  const server = await serve(catalogue ?? '{"modules":[]}');
  try {
    const program = join(place, 'node_modules', 'node-red-dev', 'bin', 'run');
    const report = join(place, 'scorecard.json');
    // The tool asks the addresses outside of the registry through this server, and ends where it gets no answer.
    const env = {
      ...process.env,
      https_proxy: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      no_proxy: 'registry.npmjs.org',
    };
    const output = await patiently(() =>
      runNode([program, 'validate', '--path', target, '--output', report], place, env),
    );
    const { package: _, ...scorecard } = JSON.parse(await readFile(report, 'utf8'));
    return { scorecard, output, hasCatalogue: catalogue !== null };
  } finally {
    server.close();
  }
}

/** Tries again where the registry has closed a connection: the tool does not. */
async function patiently(validate: () => Promise<string>, tries = 3): Promise<string> {
  try {
    return await validate();
  } catch (thrown) {
    if (tries === 1 || !/ECONNRESET|ETIMEDOUT|EAI_AGAIN/.test(String(thrown))) throw thrown;
    return patiently(validate, tries - 1);
  }
}

async function fetchCatalogue(): Promise<string | null> {
  try {
    const response = await fetch(CATALOGUE, { signal: AbortSignal.timeout(20_000) });
    return response.ok ? await response.text() : null;
  } catch {
    return null;
  }
}

async function serve(catalogue: string): Promise<Server> {
  const server = createServer((request, response) => {
    const isKnown = request.url === CATALOGUE;
    response.writeHead(isKnown ? 200 : 502, { 'Content-Type': 'application/json' }).end(isKnown ? catalogue : '');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

function runNode(args: readonly string[], cwd: string, env: NodeJS.ProcessEnv = process.env): Promise<string> {
  return new Promise((resolve, reject) => {
    const done = (error: ExecFileException | null, stdout: string, stderr: string): void => {
      const output = `${stdout}${stderr}`;
      // It closes its standard input itself, and ends with code 0 whether it has found something or not.
      if (error) reject(new Error(`${args.join(' ')} failed:\n${output}`));
      else resolve(output);
    };
    execFile(process.execPath, args, { cwd, env, maxBuffer: 10_000_000 }, done);
  });
}
