/**
 * *New pipeline*: one dialog asks what a user has, and how it is called, and puts the flow of that on the canvas. An action
 * with a shortcut, also in Node-RED's menu and in the empty sidebar. Call `add` once.
 */
import { findRuntime } from '../form.js';
import { notify } from '../sidebar-dom.js';
import { addNodes, commit, freeTop, openTab, widthOf } from './canvas.js';
import { pipelineFlow } from './flow.js';
import { makeForm } from './form.js';

const ACTION = 'modelets:new-pipeline';
const MENU = 'red-ui-header-button-sidemenu';
const PICTURE = '@modelet/node-red-pipeline/assets/images/digit-7.jpg';

const text = (key, values) => RED._(`@modelet/node-red-pipeline/modelet-sidebar:modelet-sidebar.new.${key}`, values);

function firstConfig(type) {
  let found = null;
  RED.nodes.eachConfig((config) => {
    if (!found && config.type === type && !config.z && !config.d) found = config.id;
  });
  return found;
}

/** Creates the file of a stage with code to begin with, unless it is there or must not be. The badge then says what is missing. */
async function createFile({ source, path }) {
  if (!['file', 'python'].includes(source)) return;
  const { isCreatable } = await $.getJSON('modelets/resolve', { path, source }).catch(() => ({}));
  if (!isCreatable) return;
  const data = JSON.stringify({ path, source, predict: 'item' });
  await $.ajax({ url: 'modelets/files', method: 'POST', contentType: 'application/json', data }).catch(() => null);
}

/** Returns zeros of a shape, of which only the first dimension may be open; undefined for large ones. */
function zeros(shape) {
  const sizes = shape.map((size) => (Number.isInteger(size) && size > 0 ? size : 1));
  if (sizes.reduce((product, size) => product * size, 1) > 1000) return undefined;
  return sizes.reduceRight((inner, size) => Array.from({ length: size }, () => inner), 0);
}

/** Returns an input that fits an ONNX model; undefined if the model cannot be read, or is too large. */
async function sampleOfModel({ source, path }) {
  if (source !== 'onnx' || path === '') return undefined;
  const { inputs = [] } = await $.getJSON('modelets/onnx', { path }).catch(() => ({}));
  // The first dimension is that of the batch: a stage adds it.
  const values = inputs.map(({ name, shape }) => [name, zeros(shape.slice(1))]);
  if (values.length === 0 || values.some(([, value]) => value === undefined)) return undefined;
  return values.length === 1 ? values[0][1] : Object.fromEntries(values);
}

/** A picture of this package to begin with, where a file is read whole. */
async function fileOf({ call, source, task, file }) {
  if (call !== 'file' || file !== '' || source !== 'task' || !/image|object|depth/.test(task)) return file;
  const { exists, path } = await $.getJSON('modelets/resolve', { path: PICTURE }).catch(() => ({}));
  return exists ? path : file;
}

/** Draws a pipeline below all that is on the tab. Returns the id of its stage. */
export function draw(answers) {
  const dirty = RED.nodes.dirty();
  const { tab, events } = openTab();
  const nodes = pipelineFlow(answers, {
    ...{ newId: () => RED.nodes.id(), widthOf, say: text, tab },
    ...{ left: 34, top: freeTop(tab), admin: `${location.origin}${location.pathname}`.replace(/\/$/, '') },
    ...{ runtime: findRuntime({ z: tab }), broker: firstConfig('mqtt-broker') },
  });
  const stage = nodes.find(({ type }) => type === 'modelet-stage').id;
  commit([...events, addNodes(nodes)], dirty, [stage]);
  return stage;
}

async function create(given) {
  const [sample, file] = await Promise.all([sampleOfModel(given), fileOf(given), createFile(given)]);
  RED.view.reveal(draw({ ...given, sample, file }));
  const values = { name: given.name, interpolation: { escapeValue: false } };
  notify(text('done', values), { type: 'success', timeout: 8000 });
}

function open() {
  if (!RED.user.hasPermission('flows.write')) {
    RED.notify(text('denied'), 'warning');
    return;
  }
  const form = makeForm(text);
  const finish = () => {
    const answers = form.answers();
    dialog.dialog('close');
    // Files and models are asked for before the flow is drawn.
    create(answers).catch((failed) => notify(String(failed.message ?? failed), 'error'));
  };
  const dialog = $('<div id="modelet-new-pipeline">').append(form.element).appendTo('#red-ui-editor');
  dialog.dialog({
    ...{ title: text('label'), modal: true, width: 640, resizable: false },
    classes: {
      'ui-dialog': 'red-ui-editor-dialog',
      'ui-dialog-titlebar-close': 'hide',
      'ui-widget-overlay': 'red-ui-editor-dialog',
    },
    buttons: [
      { id: 'modelet-new-cancel', text: text('cancel'), click: () => dialog.dialog('close') },
      { id: 'modelet-new-ok', text: text('ok'), class: 'primary', click: finish },
    ],
    open() {
      RED.keyboard.disable();
      form.shown();
    },
    close() {
      RED.keyboard.enable();
      form.destroy();
      dialog.dialog('destroy').remove();
    },
  });
}

export function add() {
  RED.actions.add(ACTION, open, { label: text('menu') });
  RED.keyboard.add('*', 'ctrl-alt-p', ACTION);
  RED.menu.addItem(MENU, { id: 'modelet-menu-new', label: text('menu'), onselect: ACTION });
  // Beside what makes flows, not behind the version of Node-RED.
  $('#modelet-menu-new').parent().insertAfter($('#menu-item-export').parent());
}
