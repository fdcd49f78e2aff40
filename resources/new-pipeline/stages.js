/** The stage of a new pipeline by what a user has, and an input for its test button. Pure. */

import { CODE as STARTS } from '../stage-start.js';

/** Code to begin with: what `input` is depends on how the pipeline is called. */
const CODE = {
  inline: {
    payload: STARTS.javascript.item,
    lines: '// input is a line of the file; return the result\nreturn { words: input.trim().split(/\\s+/).length };',
    picture: '// input is the picture, as a Buffer; return the result\nreturn { bytes: input.length };',
  },
  'python-code': {
    payload: STARTS.python.item,
    lines: '# input is a line of the file; return the result\nreturn {"words": len(input.split())}',
    picture: '# input is the picture, as bytes; return the result\nreturn {"bytes": len(input)}',
  },
};

const REMOTE = `// init.url is the address of the model. If it needs a key, give the stage the variable MODEL_KEY.
const key = env.get('MODEL_KEY');
const isFile = Buffer.isBuffer(input);
const response = await fetch(init.url, {
  method: 'POST',
  headers: {
    'Content-Type': isFile ? 'application/octet-stream' : 'application/json',
    ...(key && { Authorization: \`Bearer \${key}\` }),
  },
  body: isFile ? input : JSON.stringify(input),
  signal: ctx.signal,
});
if (!response.ok) throw new Error(\`the model: status \${response.status}: \${await response.text()}\`);
return response.json();`;

/** A picture of 8 x 8 pixels, in base64. */
const PICTURE = 'iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR42mM4oaGBFTEMLQkAgl1GARdiiXUAAAAASUVORK5CYII=';

/** The code of a new stage, as `call` gives it its input. */
export function codeFor(source, call) {
  return CODE[source][{ file: 'lines', camera: 'picture' }[call] ?? 'payload'];
}

export function stageFor({ source, call, code, path, module, task, model, url }) {
  if (CODE[source]) return { source, code: code || codeFor(source, call) };
  if (source === 'module') return { source, module, libs: module ? [{ var: '', module }] : [] };
  if (source === 'task') return { source, task, model };
  if (source === 'remote') return { source: 'inline', code: REMOTE, init: JSON.stringify({ url }), concurrency: 16 };
  return { source, path };
}

function kindOf(task) {
  if (/image|object|depth/.test(task)) return 'picture';
  if (/audio|speech/.test(task)) return 'sound';
  return /^question/.test(task) ? 'question' : 'text';
}

/** Returns the kind of file that an input is as a whole, `picture` or `sound`; null if it is a value or a line. */
export function fileKind({ source, task }) {
  const kind = source === 'task' ? kindOf(task) : null;
  return kind === 'picture' || kind === 'sound' ? kind : null;
}

/** A tenth of a second of silence as a WAV file, in base64. */
function silence() {
  const samples = 1600;
  const bytes = new Uint8Array(44 + samples * 2);
  const view = new DataView(bytes.buffer);
  const write = (at, text) => bytes.set(new TextEncoder().encode(text), at);
  write(0, 'RIFF');
  view.setUint32(4, bytes.length - 8, true);
  write(8, 'WAVEfmt ');
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, 16000, true);
  view.setUint32(28, 32000, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  write(36, 'data');
  view.setUint32(40, samples * 2, true);
  return btoa(String.fromCharCode(...bytes));
}

function knownInput(task) {
  const labels = task.startsWith('zero-shot') ? { options: { labels: ['a walk', 'a talk'] } } : {};
  const kind = kindOf(task);
  if (kind === 'picture') return { input: PICTURE, ...labels };
  if (kind === 'sound') return { input: silence() };
  if (kind === 'question') return { question: 'What is in the woods?', context: 'A walk is in the woods.' };
  return task.startsWith('zero-shot') ? { input: 'a walk in the woods', ...labels } : { text: 'a walk in the woods' };
}

/** Returns an input as JSON. */
export function sampleFor({ source, task, sample }) {
  if (sample !== undefined) return sample;
  if (source === 'task') return knownInput(task);
  if (source === 'remote') return { model: 'default', messages: [{ role: 'user', content: 'Hello' }] };
  return source === 'onnx' ? [0] : { text: 'a walk in the woods' };
}
