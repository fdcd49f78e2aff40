/**
 * Fields for the options of an ONNX model. The options are a part of `init`, so a field writes to the JSON there and leaves
 * its other options alone.
 */
import { jsonObject } from './form.js';
import { keep } from './task-options.js';

/** A text with a comma is a list of labels, any other the path of a file. */
function readLabels(text) {
  const labels = text.split(',').map((label) => label.trim());
  if (labels.length > 1) return labels;
  return labels[0] === '' ? undefined : labels[0];
}

function showLabels(labels) {
  return Array.isArray(labels) ? labels.join(', ') : (labels ?? '');
}

/** A list with one label, or with a comma in one, has no form as text. */
function isShowable(labels) {
  return !Array.isArray(labels) || (labels.length > 1 && labels.every((label) => !String(label).includes(',')));
}

/** Reads `input_ids=0, attention_mask=0`. A part that is no such pair stays as text, which the deploy rejects. */
function readPad(text) {
  const parts = text.split(',').map((part) => part.trim());
  if (parts.length === 1 && parts[0] === '') return undefined;
  const pairs = parts.map((part) => /^(.*\S)\s*=\s*(\S+)$/.exec(part));
  if (pairs.includes(null)) return text;
  return Object.fromEntries(
    pairs.map(([, name, value]) => [name, Number.isNaN(Number(value)) ? value : Number(value)]),
  );
}

function showPad(pad) {
  if (pad === null || typeof pad !== 'object') return pad ?? '';
  return Object.entries(pad)
    .map(([name, value]) => `${name}=${value}`)
    .join(', ');
}

/** Keeps a field for one of the two presets, and the fields of its options. `onchange` is called with the chosen one. */
function keepPreset({ node, form, init, setting, onchange }) {
  const select = form.find(`#modelet-onnx-${setting}`);
  const presets = window.modelet.presets[setting];
  const text = (name) => node._(`modelet-stage.onnx.${setting}Choice.${name}`);
  select.append(Object.keys(presets).map((name) => $('<option>').val(name).text(text(name))));
  const show = () => {
    const options = init.read();
    select.prop('disabled', options === null);
    if (options !== null) select.val(options[setting] ?? 'tensors');
    onchange(select.val());
  };
  show();
  const fields = keep({
    ...{ node, init, prefix: 'onnx', rows: form.find(`#modelet-onnx-${setting}-options`) },
    all: Object.values(presets),
    current: () => presets[select.val()] ?? {},
  });
  init.follow(() => {
    const before = select.val();
    show();
    if (select.val() !== before) fields.draw();
  });
  select.on('change', () => {
    fields.forget();
    init.write({ [setting]: select.val() === 'tensors' ? undefined : select.val() });
    fields.draw();
    onchange(select.val());
  });
}

/** Connects the fields in the open dialog `form` with its field of `init`. */
export function attach(node, form) {
  const init = jsonObject(form.find('#node-input-init'));
  const field = (name) => form.find(`#modelet-onnx-${name}`);

  const show = () => {
    const options = init.read();
    for (const name of ['labels', 'softmax', 'outputs', 'pad', 'threads'])
      field(name).prop('disabled', options === null);
    if (options === null) return;
    field('labels').val(showLabels(options.labels)).prop('disabled', !isShowable(options.labels));
    field('softmax').prop('checked', options.softmax === true);
    field('outputs').val(options.tensors === true ? 'tensors' : 'values');
    field('pad').val(showPad(options.pad));
    field('threads').val(options.threads ?? '');
  };

  const write = (name, value) => init.write({ [name]: value });

  field('labels').on('change keyup', () => write('labels', readLabels(field('labels').val())));
  field('softmax').on('change', () => write('softmax', field('softmax').prop('checked') || undefined));
  field('outputs').on('change', () => write('tensors', field('outputs').val() === 'tensors' || undefined));
  field('pad').on('change keyup', () => write('pad', readPad(field('pad').val())));
  field('threads').on('change keyup', () => {
    const text = field('threads').val().trim();
    // A text that is no number stays as it was typed, and the deploy rejects it with a reason.
    write('threads', text === '' ? undefined : Number.isNaN(Number(text)) ? text : Number(text));
  });
  init.follow(show);
  show();
  const ofTensors = form.find('#modelet-onnx-tensors');
  keepPreset({ node, form, init, setting: 'takes', onchange: () => {} });
  keepPreset({
    ...{ node, form, init, setting: 'gives' },
    onchange: (gives) => {
      const isOfTensors = gives === 'tensors';
      ofTensors.toggle(isOfTensors);
      const { softmax, tensors } = init.read() ?? {};
      if (!isOfTensors && (softmax || tensors)) init.write({ softmax: undefined, tensors: undefined });
    },
  });
}
