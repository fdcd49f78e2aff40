/** The editor translates the English sentences of Node-RED's half: resources/said.js with its tables. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { createContext, runInContext } from 'node:vm';
import { repositoryRoot } from '../fixtures/repository.ts';
import { BADGES } from './badges.ts';

type Table = Readonly<Record<string, string>>;

const RESOURCES = join(repositoryRoot, 'resources');
const FILES = readdirSync(join(RESOURCES, 'said'));

function tableIn(file: string): Table {
  return JSON.parse(readFileSync(join(RESOURCES, 'said', file), 'utf8')) as Table;
}

function catalogIn(language: string, name: string): object {
  const path = join(repositoryRoot, 'nodes', 'locales', language, `${name.split('/').at(-1)}.json`);
  return JSON.parse(readFileSync(path, 'utf8')) as object;
}

/** Runs the script as in an editor with that language. */
async function speaker(file: string): Promise<(sentence: string) => string> {
  const language = file.replace('.json', '');
  const context = createContext({
    window: {},
    localStorage: { getItem: () => language },
    i18next: { getResourceBundle: catalogIn },
    RED: {
      nodes: { eachNode: () => undefined },
      comms: { subscribe: () => undefined },
      events: { on: () => undefined },
    },
    fetch: () => Promise.resolve({ json: () => Promise.resolve(tableIn(file)) }),
  });
  runInContext(readFileSync(join(RESOURCES, 'said.js'), 'utf8'), context);
  const loaded = new Promise((resolve) => setImmediate(resolve));
  await loaded;
  return runInContext('window.modelet.said', context) as (sentence: string) => string;
}

/** Sentences of the sidebar, each with the names and messages in it that stay as they are. */
const SENTENCES: readonly (readonly [sentence: string, kept?: string])[] = [
  ['All is well. Nothing runs now.'],
  ['digit cannot be used: File: no file model.onnx. 2 more cannot be used.', 'digit model.onnx'],
  ['classify: does not start: ReferenceError: x is not defined.', 'classify ReferenceError x is not defined'],
  ['looper has run one call for 40 s, where 12 ms is usual: restart it, or set a run timeout.', 'looper'],
  [
    'normalise: the last request ended with modelet_failed, and no request was answered since: x',
    'normalise modelet_failed x',
  ],
  ['POST /first is the address of two HTTP-in nodes, and one of them gets no requests.', 'POST first in'],
  ['POST /first gets no answer: no HTTP response node follows. Wire one behind the last stage.', 'POST first response'],
  ['normalise: 3 x invalid_input: image must be array', 'normalise invalid_input image must be array'],
  ['scale: worker 1 died 12 s ago: was killed by SIGKILL', 'scale SIGKILL'],
  ['open: room for 3 requests, 2 in flight; N 5 = 8 x (D 0.7 - B 0.05)'],
  ['Gate batch keeps 3 waiting: closed: 4 % free, 5 % kept.', 'batch'],
  ['Failures of other kinds: 2.'],
  ['classify: does not start: x is not a function. 1 more cannot serve.', 'classify x is not a function'],
  ['digit serves with fewer workers: 1 of 2 ready.', 'digit'],
  ['2 of 2 busy, 2 of 0-4 workers, 14 wait'],
  ['asleep: no request for 10 min'],
  ['woke: a request came'],
  ['ended 2 workers: 1 would have been enough for 30 s'],
  ['added a worker: a request has waited for 1.2 s'],
  ['asleep. the next request starts a worker'],
  ['Batch size: must be <= 10000; got 10001'],
  ['Run timeout: must be >= 0; got -1'],
  ['2 of 2 busy, one call for 40 s, 14 wait, one by one'],
  ['closed: sample 7.2 s old, older than 5 s; opens when the source answers'],
  ['closed: 4 % free, 5 % kept (0.96); opens when more than 5 % is free'],
  ['Drop key camera has no effect: When full does not drop the oldest items', 'camera'],
  ['normalise → classify; ends there because its output goes to a debug node', 'normalise classify debug'],
  ['Version A, B and C failed', 'Version A, B and C failed'],
  ['only the engine gathers the items of lists: the node faces also gathers messages from elsewhere', 'faces'],
  ['only the engine gathers the items of lists: no stage that emits lists leads to it through stages alone'],
  ['the engine cannot gather the items of its lists: the errors of stage cut do not go to the node faces', 'cut faces'],
  ['the engine cannot gather the items of its lists: stage cut writes msg.faces', 'cut msg.faces'],
  ['the engine cannot gather the items of its lists: a Complete node watches the node that gathers them', 'Complete'],
  ['the engine cannot gather the items of its lists: lists in lists are at most 3 deep'],
  ['its output goes to 2 stages: the errors of a node that gathers branches do not go to the node that gathers them'],
  ['stage sum has the keys msg.topic, which a stage before it writes', 'sum msg.topic'],
  ['a Complete node watches the node faces', 'Complete faces'],
  ['a Complete node watches a debug node behind stage cut', 'Complete debug cut'],
  [
    'the route ends behind stage cut: a Complete node watches stage sum, which has to take messages in itself',
    'cut Complete sum',
  ],
  ['the output of the result collector goes to an HTTP response node and a function node', 'response function'],
  ['stage read digit and stage sum take different media types', 'read digit sum'],
  ['the errors of stage cut do not go to the node faces', 'cut faces'],
  ["the HTTP-in node's output goes to a switch node: none of its outputs leads to a stage", 'in switch'],
  ["the HTTP-in node's requests also go to another node in front of the first stage", 'in'],
  ['stage read digit changes msg.faces, and only Node-RED has whole messages', 'read digit msg.faces'],
  ['the batcher cannot be used: it belongs to no route'],
  ['its output goes to the status output of its subflow'],
  ['not a JPEG, PNG, WebP or GIF file', 'JPEG PNG WebP GIF'],
  ['60 megapixels, limit 50'],
  ['12.5 MB, limit 8'],
  ['the store /d/one.sqlite cannot grow: the disk is full: disk I/O error', 'd/one.sqlite disk I/O error'],
  [
    'Gate one cannot use its store: the store /d/one.db is missing: put back the file that was there; or delete /d/one.db.known to use the present file, or a new one if it is missing.',
    'one d/one.db.known',
  ],
  ['the broker is unreachable\nredis://r: connect ECONNREFUSED', 'redis://r connect ECONNREFUSED'],
  ['env: an array needs one object per worker: 2 for 1 worker', 'env'],
];
/** Words that every language has as they are. */
const COMMON =
  /\b(?:worker|digits\.js|new|Unexpected token|engine: core 7 does not exist|ms|s|min|x|N|D|B|max_SYS|MB|Node-RED|HTTP|Prometheus|WebAssembly|EADDRINUSE|SIGKILL)\b/g;

for (const file of FILES) {
  describe(`sentences: ${file}`, () => {
    test('each stands in the code, so that none is out of date', () => {
      const code = readdirSync(join(repositoryRoot, 'src'), { recursive: true })
        .map(String)
        .filter((name) => /\.(ts|py)$/.test(name))
        .map((name) => readFileSync(join(repositoryRoot, 'src', name), 'utf8'))
        .join('\n')
        .replaceAll('\\', '');
      /** The code makes some sentences of clauses: the ends of these have to stand in it. */
      const ends = (sentence: string): string[] =>
        sentence
          .replace(/^@/, '')
          .split(/\{[#*@]?\w+\}|[,;:.] /)
          .map((clause) => clause.trim().slice(-18))
          .filter((end) => end.length > 9);
      assert.deepEqual(
        Object.keys(tableIn(file)).filter((sentence) => !ends(sentence).every((end) => code.includes(end))),
        [],
      );
    });

    test('each has the same parts in both languages', () => {
      const partsOf = (text: string): string[] =>
        [...text.matchAll(/\{[#*@]?(\w+)\}/g)].map(([, name = '']) => name).sort();
      for (const [sentence, said] of Object.entries(tableIn(file))) assert.deepEqual(partsOf(said), partsOf(sentence));
    });

    test('badges and the verdict hold no English beyond names', async () => {
      const say = await speaker(file);
      const badges = BADGES.map(({ badge }): [string] => [typeof badge === 'object' ? (badge?.text ?? '') : '']);
      const english = [...badges, ...SENTENCES].flatMap(([sentence, kept = '']) => {
        const said = say(sentence);
        const left = said.replaceAll(COMMON, '').match(/[A-Za-z_]{2,}/g) ?? [];
        const unknown = left.filter((word) => !kept.includes(word));
        return unknown.length > 0 ? [`${sentence} => ${said}`] : [];
      });
      assert.deepEqual(english, []);
    });
  });
}
