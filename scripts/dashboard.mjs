// Starts Node-RED with the dashboard example: a pipeline under load, and a page with its figures.
//   npm run dashboard            editor, endpoint and dashboard on 127.0.0.1:1880
//   PORT=1890 npm run dashboard  on another port
//   RATE=0 npm run dashboard     without load; RATE is the number of requests per second, 120 by default
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { install, npm } from './install.mjs';
import { build, choosePort, fail, HOST, prepareUserDir, startNodeRed } from './node-red.mjs';
import { root } from './runtimes.mjs';

const DASHBOARD = '@flowfuse/node-red-dashboard';
const VERSION = '1.31.0';
const MAX_RATE = 10_000;
const userDir = join(root, '.node-red-dashboard');

const port = await choosePort('npm run dashboard');
const rate = Number(process.env.RATE ?? 120);
if (!Number.isInteger(rate) || rate < 0 || rate > MAX_RATE)
  fail(`RATE must be a whole number from 0 to ${MAX_RATE}, got ${process.env.RATE}`);
const endpoint = `http://${HOST}:${port}/watched/digits`;

install();
build();
prepareUserDir(userDir, {
  manifest: { name: 'dashboard' },
  example: 'Dashboard of a pipeline',
  port,
  // Do not link the package into the user directory: npm would remove the link or install the dependencies twice.
  settings: { nodesDir: [root] },
});
installDashboard();
let load;
startNodeRed(userDir, { welcome, goodbye: () => load?.kill() });

function installDashboard() {
  const manifest = join(userDir, 'node_modules', DASHBOARD, 'package.json');
  if (existsSync(manifest) && JSON.parse(readFileSync(manifest, 'utf8')).version === VERSION) return;
  console.log(`Installing ${DASHBOARD} ${VERSION} into ${userDir} (once, about a minute) ...`);
  const wanted = [
    'install',
    '--save-exact',
    '--omit=dev',
    '--ignore-scripts',
    '--prefer-offline',
    '--no-audit',
    '--no-fund',
  ];
  if (!npm([...wanted, `${DASHBOARD}@${VERSION}`], userDir))
    fail(`${DASHBOARD} could not be installed; npm's messages are above. It comes from the npm registry, once.`);
}

function welcome() {
  console.log(`
  Dashboard  http://${HOST}:${port}/dashboard/pipeline
  Editor     http://${HOST}:${port}/editor
  Endpoint   POST ${endpoint}
  Load       ${rate === 0 ? 'none' : `${rate} requests a second, one in forty is refused; RATE=300 npm run dashboard for more`}

  Ctrl-C ends it. Your edits are kept in ${userDir}.
`);
  if (rate === 0) return;
  // The IPC channel closes when this process ends for any reason, so that the load ends too.
  load = spawn(process.execPath, [join(root, 'scripts', 'load.mjs'), endpoint, String(rate)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
}
