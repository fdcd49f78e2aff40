/** The form of *New pipeline*: questions of which the later ones depend on the earlier. */
import { browse } from '../file-browser.js';
import { baseName } from '../stage-file.js';
import { codeFor } from './stages.js';

const SOURCES = ['inline', 'file', 'python-code', 'python', 'onnx', 'module', 'task', 'remote'];
const CALLS = ['http', 'mqtt', 'button', 'file', 'camera'];
/** Fields by the sources and calls that need them. */
const NEEDS = {
  code: { source: ['inline', 'python-code'] },
  path: { source: ['file', 'python', 'onnx'] },
  module: { source: ['module'] },
  task: { source: ['task'] },
  model: { source: ['task'] },
  url: { source: ['remote'] },
  endpoint: { call: ['http'] },
  topic: { call: ['mqtt'] },
  file: { call: ['file'] },
  camera: { call: ['camera'] },
};
const STARTS = { file: 'model.js', python: 'model.py', url: 'http://127.0.0.1:8000/v1/chat/completions' };
/** The languages of the code by its source, as the editor names them. */
const LANGUAGES = { inline: 'nrjavascript', 'python-code': 'python' };
/** A file of this package, which lets a new pipeline answer at once. */
const LINES = '@modelet/node-red-pipeline/assets/models/README.md';

const stageText = (key, values) => RED._(`@modelet/node-red-pipeline/modelet-stage:${key}`, values);

/** Ids as the dialog of a stage has them, because the list of folders is the same. */
const idOf = (key) => `node-input-${key}`;

function row(key, label, control) {
  return $('<div class="form-row">')
    .attr('data-question', key)
    .append($('<label>').attr('for', idOf(key)).text(label), ' ', control);
}

function choice(key, options) {
  const select = $('<select>').attr('id', idOf(key));
  for (const [value, label] of options) select.append($('<option>').val(value).text(label));
  return select;
}

function hint() {
  return $('<div class="modelet-hint" role="status">');
}

/** A name for addresses: small letters, digits and hyphens. Node-RED finds no other letters in a path. */
function slug(name) {
  const plain = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '');
  return plain || 'model';
}

/** An address that no HTTP-in node has. */
export function freePath(name) {
  const taken = new Set(
    RED.nodes.filterNodes({ type: 'http in' }).map(({ url }) => `/${String(url).replace(/^\//, '')}`),
  );
  const path = `/${slug(name)}`;
  for (let at = 2; ; at += 1) {
    const tried = at === 2 ? path : `${path}-${at - 1}`;
    if (!taken.has(tried)) return tried;
  }
}

/** Returns the parts of the form, by key. */
function makeRows(text) {
  const options = (group, keys) => keys.map((key) => [key, text(`${group}.${key}`)]);
  const tasks = Object.keys(window.modelet.tasks).map((task) => [task, stageText(`modelet-stage.task.${task}`)]);
  const field = (key) => {
    const input = $('<input type="text">').attr('id', idOf(key));
    if (['module', 'model', 'camera'].includes(key)) input.attr('placeholder', text(`placeholder.${key}`));
    return input;
  };
  const controls = {
    source: [choice('source', options('source', SOURCES)), hint()],
    code: $('<div>').attr('id', idOf('code')),
    path: field('path').css('width', 'calc(100% - var(--modelet-indent) - 50px)'),
    module: field('module'),
    task: choice('task', tasks),
    model: field('model'),
    url: field('url'),
    call: [choice('call', options('call', CALLS)), hint()],
    endpoint: field('endpoint'),
    topic: field('topic'),
    file: field('file'),
    camera: field('camera'),
    name: field('name'),
  };
  return Object.entries(controls).map(([key, control]) => row(key, text(`field.${key}`), control));
}

/** Values that a user has not typed follow the other answers. */
class Starts {
  constructor(form) {
    this.form = form;
    this.typed = new Set();
    form.on('input', 'input', ({ target }) => this.typed.add(target.id));
  }

  set(key, value) {
    if (!this.typed.has(idOf(key))) this.form.find(`#${idOf(key)}`).val(value);
  }
}

/** The editor of the code, which keeps the code of each language. Code that a user has not typed follows the call. */
class CodeField {
  constructor(form) {
    this.form = form;
    this.kept = {};
    this.source = null;
    this.editor = null;
  }

  get value() {
    return this.editor?.getValue() ?? '';
  }

  show(source, call) {
    if (!LANGUAGES[source]) return;
    const known = source === this.source ? this.value : this.kept[source];
    const isTyped = known !== undefined && CALLS.every((one) => codeFor(source, one) !== known);
    const wanted = isTyped ? known : codeFor(source, call);
    if (source !== this.source) this.open(source, wanted);
    else if (wanted !== known) this.editor.setValue(wanted, -1);
  }

  open(source, value) {
    this.destroy();
    this.source = source;
    const place = $('<div class="node-text-editor">').attr('id', idOf('code')).css('height', 160);
    this.form.find(`#${idOf('code')}`).replaceWith(place);
    this.editor = RED.editor.createEditor({ id: idOf('code'), mode: `ace/mode/${LANGUAGES[source]}`, value });
  }

  destroy() {
    if (!this.editor) return;
    this.kept[this.source] = this.value;
    this.editor.destroy();
    this.editor = null;
  }
}

function nameOf({ source, path, module, model }, text) {
  const base = (of) => baseName(of).replace(/\.\w+$/, '');
  if (['file', 'python', 'onnx'].includes(source)) return base(path);
  if (source === 'module') return module.replace(/(.)@.*$/, '$1');
  if (LANGUAGES[source]) return text('own');
  return (source === 'task' && base(model)) || text(`source.${source}`).toLowerCase();
}

export function makeForm(text) {
  const element = $('<form class="modelet-form form-horizontal">').append(makeRows(text));
  element.append($('<input type="hidden" id="node-input-predict" value="item">'));
  element.on('submit', (event) => event.preventDefault());
  const value = (key) => String(element.find(`#${idOf(key)}`).val() ?? '').trim();
  const starts = new Starts(element);
  const code = new CodeField(element);

  const answers = () => {
    const given = Object.fromEntries(['source', 'call', 'name', ...Object.keys(NEEDS)].map((key) => [key, value(key)]));
    const endpoint = `/${given.endpoint.replace(/^\/+/, '')}`;
    const name = given.name || nameOf(given, text);
    return { ...given, name, endpoint, topic: given.topic || slug(name), code: code.value };
  };

  const follow = () => {
    const [source, call] = [value('source'), value('call')];
    for (const [key, needs] of Object.entries(NEEDS)) {
      const isNeeded = (needs.source ?? [source]).includes(source) && (needs.call ?? [call]).includes(call);
      element.find(`[data-question="${key}"]`).toggle(isNeeded);
    }
    element.find('[data-question="source"] .modelet-hint').text(text(`tip.source.${source}`));
    element.find('[data-question="call"] .modelet-hint').text(text(`tip.call.${call}`));
    starts.set('path', STARTS[source] ?? '');
    starts.set('url', STARTS.url);
    starts.set('file', ['onnx', 'remote'].includes(source) ? '' : LINES);
    starts.set('name', nameOf(answers(), text));
    starts.set('endpoint', freePath(value('name')));
    starts.set('topic', slug(value('name')));
    code.show(source, call);
  };

  return {
    element,
    answers,
    /** Call when it is in the page. */
    shown() {
      browse({ node: { _: stageText }, form: element });
      element.on('change input', 'select, input', follow);
      follow();
      element.find('select').first().trigger('focus');
    },
    destroy: () => code.destroy(),
  };
}
