// One command from a fresh clone to a running pipeline: installs, builds, starts Node-RED with the quick-start flow.
//   npm start            editor, page and endpoint on 127.0.0.1:1880
//   PORT=1890 npm start  on another port
import { existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { install } from './install.mjs';
import { build, choosePort, HOST, prepareUserDir, readImages, startNodeRed } from './node-red.mjs';
import { root } from './runtimes.mjs';

const PACKAGE = '@modelet/node-red-pipeline';
const userDir = join(root, '.node-red');

const port = await choosePort('npm start');
install();
build();
prepareUserDir(userDir, {
  manifest: { name: 'quick-start', dependencies: { [PACKAGE]: 'file:..' } },
  example: 'Quick start - handwritten digits',
  port,
});
linkPackage();
startNodeRed(userDir, { welcome });

function linkPackage() {
  const link = join(userDir, 'node_modules', PACKAGE);
  mkdirSync(dirname(link), { recursive: true });
  if (!existsSync(link)) symlinkSync(root, link, 'junction');
}

function welcome() {
  const endpoint = `http://${HOST}:${port}/predict/digits`;
  const { image } = readImages().find(({ label }) => label === 7);
  console.log(`
  Editor     http://${HOST}:${port}/editor
  Page       http://${HOST}:${port}/digits (draw a digit)
  Endpoint   POST ${endpoint}
  Try it     curl -s ${endpoint} -H 'Content-Type: application/json' -d '{"image":[${image}]}'

  Ctrl-C ends it. Your edits are kept in ${userDir}.
`);
}
