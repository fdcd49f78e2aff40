/**
 * Makes the flow of *New pipeline*: from what a user has and how it is called to nodes in groups, wired and laid out, with a
 * button to test it and a comment that says how to ask. Pure: the browser and the tests import it.
 */
import { layOut } from './layout.js';
import { fileKind, sampleFor, stageFor } from './stages.js';

/** How a pipeline may be called, each with the parts of its drawing. */
const CALLS = { http: overHttp, mqtt: overMqtt, button: byButton, file: fromFile, camera: fromCamera };

/** Sources whose models take several inputs in a call without code of the user's. */
const BATCHED = ['onnx', 'task'];
/** Sources that need something beside the pipeline, which its comment names. */
const NEEDY = ['python', 'python-code', 'onnx', 'module', 'task', 'remote'];

/** See resources/own-address.js. */
const ADDRESS = '$' + '{MODELET_URL}';

/** A debug node whose badge shows what comes, `status` as JSONata. */
function shown(key, label, complete, status, more = {}) {
  const props = {
    ...{ active: true, tosidebar: true, console: false, tostatus: true, complete, targetType: 'msg' },
    ...{ statusVal: status, statusType: 'jsonata', ...more },
  };
  return { key, type: 'debug', label, props };
}

function inject(key, label, payload, more = {}) {
  const props = {
    ...{ props: [{ p: 'payload' }], repeat: '', crontab: '', once: false, onceDelay: 0.1, topic: '' },
    ...{ payload: JSON.stringify(payload), payloadType: 'json', ...more },
  };
  return { key, type: 'inject', label, props };
}

/** The batcher, the stage and the collector. Results and errors go to the cells of these keys. */
function chain(answers, say, { results, errors, stage = {}, collector = {} }) {
  const own = { ...stageFor(answers), ...stage };
  const isBatched = BATCHED.includes(answers.source);
  const batcher = {
    key: 'batcher',
    type: 'modelet-batcher',
    label: say('node.batcher'),
    isNameless: true,
    to: [['stage']],
  };
  return [
    ...(isBatched ? [{ ...batcher, props: { maxBatchSize: 32, policy: 'greedy', maxWaitMs: 10 } }] : []),
    { key: 'stage', type: 'modelet-stage', label: answers.name, props: own, to: [['collector']] },
    {
      key: 'collector',
      type: 'modelet-collector',
      label: say('node.collector'),
      props: { order: 'completion', catch: 'upstream', errorPayload: 'body', results: 'whole', ...collector },
      to: [results, errors],
    },
  ];
}

function entryOf(answers) {
  return BATCHED.includes(answers.source) ? 'batcher' : 'stage';
}

/** Results above, errors below: where no client waits for an answer. */
function endings(say, more) {
  return [
    shown('result', say('node.result'), 'payload', 'payload', more),
    shown('error', say('node.error'), 'error', 'error.code ? error.code : error.message'),
  ];
}

function overHttp(answers, say) {
  const { endpoint, name } = answers;
  const ask = inject('button', say('button.ask'), sampleFor(answers), {
    props: [
      { p: 'payload' },
      { p: 'url', v: `$env("MODELET_URL") & ${JSON.stringify(endpoint)}`, vt: 'jsonata' },
      { p: 'rejectUnauthorized', v: 'false', vt: 'bool' },
    ],
  });
  const request = {
    ...{ key: 'request', type: 'http request', label: say('node.ask'), to: [['answer']] },
    props: { method: 'POST', ret: 'obj', paytoqs: 'ignore', url: '', persist: false, senderr: false, headers: [] },
  };
  const httpIn = {
    ...{ key: 'in', type: 'http in', label: `[post] ${endpoint}`, isNameless: true, to: [[entryOf(answers)]] },
    props: { url: endpoint, method: 'post', upload: false, skipBodyParsing: false, swaggerDoc: '' },
  };
  const response = { key: 'response', type: 'http response', label: say('node.response') };
  const parts = chain(answers, say, { results: ['response'], errors: ['response'] });
  return [
    {
      name: say('group.try'),
      rows: [[{ ...ask, to: [['request']] }, request, shown('answer', say('node.answer'), 'payload', 'payload')]],
    },
    { name, rows: [[httpIn, ...parts, { ...response, props: { statusCode: '', headers: {} } }]] },
  ];
}

function overMqtt(answers, say) {
  const { topic, name } = answers;
  const subscribe = {
    ...{ key: 'in', type: 'mqtt in', label: topic, isNameless: true, to: [[entryOf(answers)]] },
    props: { topic, qos: '0', datatype: 'auto-detect', broker: answers.broker, nl: false, rap: true, rh: 0, inputs: 0 },
  };
  const publish = {
    ...{ key: 'out', type: 'mqtt out', label: `${topic}/result`, isNameless: true },
    props: { topic: `${topic}/result`, qos: '', retain: '', broker: answers.broker },
  };
  const button = inject('button', say('button.press'), sampleFor(answers));
  const [result, error] = endings(say);
  const parts = chain(answers, say, { results: ['out', 'result'], errors: ['error'] });
  return [
    {
      name,
      rows: [
        [subscribe, ...parts, publish],
        [{ ...button, to: [[entryOf(answers)]] }, ...parts.map(() => null), result],
        [null, ...parts.map(() => null), error],
      ],
    },
  ];
}

function byButton(answers, say) {
  const button = { ...inject('button', say('button.press'), sampleFor(answers)), to: [[entryOf(answers)]] };
  return [{ name: answers.name, rows: withEndings([button], chain(answers, say, ENDS), endings(say)) }];
}

const ENDS = { results: ['result'], errors: ['error'] };

function withEndings(before, parts, [result, error]) {
  const gap = [...before, ...parts].map(() => null);
  return [
    [...before, ...parts, result],
    [...gap, error],
  ];
}

/** A file is split into its lines, or read whole where the model takes pictures or sounds. */
function fromFile(answers, say) {
  const { file, name } = answers;
  const isWhole = fileKind(answers) !== null;
  const reader = isWhole
    ? {
        type: 'file in',
        props: { filename: 'filename', filenameType: 'msg', format: '', allProps: false, sendError: false },
      }
    : {
        type: 'modelet-feed',
        props: { from: ['remote', 'onnx'].includes(answers.source) ? 'jsonl' : 'lines', window: 256 },
      };
  const button = inject('button', say('button.file'), '', {
    ...{ props: [{ p: 'filename', v: file, vt: 'str' }], payload: '', payloadType: 'date' },
  });
  const before = [
    { ...button, to: [['reader']] },
    { key: 'reader', label: say(isWhole ? 'node.whole' : 'node.lines'), to: [[entryOf(answers)]], ...reader },
  ];
  // A file may have a million lines: its results are for the next node, not for the sidebar.
  const ends = endings(say, { tosidebar: isWhole });
  const parts = chain(answers, say, { ...ENDS, collector: { order: 'arrival' } });
  return [{ name, rows: withEndings(before, parts, ends) }];
}

/** The newest picture counts: the queue has room for one, and a new picture pushes out that which waits. */
function fromCamera(answers, say) {
  const { camera, name } = answers;
  const newest = { overflow: 'drop-oldest', capacity: 1, maxAgeMs: 5000 };
  const timer = inject('button', say('button.picture'), '', {
    ...{ payload: '', payloadType: 'date', repeat: camera === '' ? '' : '1' },
  });
  const request = {
    ...{ key: 'request', type: 'http request', label: say('node.camera'), to: [[entryOf(answers)]] },
    props: { method: 'GET', ret: 'bin', paytoqs: 'ignore', url: camera, persist: true, senderr: true, headers: [] },
  };
  const parts = chain(answers, say, { ...ENDS, stage: newest, collector: { errorPayload: 'keep' } });
  const [first, second] = withEndings([{ ...timer, to: [['request']] }, request], parts, endings(say));
  const failed = { key: 'catch', type: 'catch', label: say('node.failed'), to: [['error']], scopeOf: 'request' };
  return [{ name, rows: [first, [failed, ...second.slice(1)]] }];
}

/** Returns the options of curl that send an input. */
function bodyOf(answers, sample) {
  const kind = fileKind(answers);
  if (kind === null) return `-H 'Content-Type: application/json' -d '${sample}'`;
  const [type, file] = { picture: ['image/jpeg', 'picture.jpg'], sound: ['audio/wav', 'sound.wav'] }[kind];
  return `-H 'Content-Type: ${type}' --data-binary @${file}`;
}

/** Returns the line of the comment and the text in it. `press`: the address at which Node-RED presses the button. */
function commentOf(answers, say, press) {
  const { call, source, endpoint, topic } = answers;
  const sample = JSON.stringify(sampleFor(answers)).replaceAll("'", "'\\''");
  const values = {
    ...{ endpoint, topic, sample, press, interpolation: { escapeValue: false } },
    curl: `curl -s ${ADDRESS}${endpoint} ${bodyOf(answers, sample)}`,
  };
  const texts = [say(`comment.${call}.text`, values), ...(NEEDY.includes(source) ? [say(`needs.${source}`)] : [])];
  return { name: say(`comment.${call}.title`, values), info: texts.join('\n\n') };
}

/**
 * Returns the nodes of a pipeline, and its config nodes where they are not there yet.
 *
 * answers: `source`, `call`, `name`, and what these need: `code`, `path` of a file, `module`, `task`, `model`, `url`, `sample`
 * of an input; `endpoint`, `topic`, `file`, `camera`.
 * tools: `newId()`, `widthOf(label)` in px, `say(key, values)`, `tab`, `left` and `top` of the drawing, the ids `runtime` and
 * `broker` of config nodes that are there, and `admin`, the address of the editor.
 */
export function pipelineFlow(given, tools) {
  const { newId, say, tab } = tools;
  const [runtime, broker] = [tools.runtime || newId(), tools.broker || newId()];
  const answers = { ...given, broker };
  const button = newId();
  const comment = commentOf(answers, say, `${tools.admin}/inject/${button}`);
  const blocks = CALLS[answers.call](answers, say);
  const drawn = layOut({ blocks, comment }, { ...tools, idOf: new Map([['button', button]]) });
  const isNew = { runtime: !tools.runtime, broker: !tools.broker && answers.call === 'mqtt' };
  return [
    ...(isNew.runtime ? [{ id: runtime, type: 'modelet-runtime', name: 'default' }] : []),
    ...(isNew.broker ? [{ id: broker, type: 'mqtt-broker', ...BROKER }] : []),
    ...drawn.map((node) => ({ ...node, z: tab, ...(node.type === 'modelet-stage' ? { runtime } : {}) })),
  ];
}

const BROKER = {
  ...{ name: '', broker: 'localhost', port: '1883', clientid: '', autoConnect: true, usetls: false },
  ...{ protocolVersion: '4', keepalive: '60', cleansession: true, autoUnsubscribe: true },
};
