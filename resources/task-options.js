/**
 * Fields for the task of a known model and its options, and for those of an ONNX model's presets. The options are a part of
 * `init`, so a field writes to the JSON there.
 */
import { jsonObject } from './form.js';

/** Puts the choices of the task below the kinds of what goes in. */
function group(node, select) {
  const kinds = new Map();
  for (const choice of select.find('option').get()) {
    const { input } = window.modelet.tasks[choice.value];
    const label = node._(`modelet-stage.taskInput.${input}`);
    if (!kinds.has(input)) kinds.set(input, $('<optgroup>').attr('label', label).appendTo(select));
    kinds.get(input).append(choice);
  }
}

/** Returns the field of an option, empty. */
function fieldFor(node, id, name, { type, default: usual, enum: choices }) {
  if (type === 'boolean') return $('<input type="checkbox">').attr('id', id);
  if (choices) {
    const text = (choice) => node._(`modelet-stage.choice.${choice}`);
    return $('<select>')
      .attr('id', id)
      .append(choices.map((choice) => $('<option>').val(choice).text(text(choice))));
  }
  const field = $('<input type="text">').attr({
    id,
    placeholder: usual?.toString() || node._(`modelet-stage.optionExample.${name}`),
  });
  return type === 'integer' || type === 'number' ? field.addClass('modelet-number') : field;
}

function show(field, { type, default: usual }, value) {
  if (type === 'boolean') field.prop('checked', value ?? usual);
  else if (field.is('select')) field.val(value ?? usual);
  else field.val(Array.isArray(value) ? value.join(', ') : (value ?? ''));
}

/** Returns the value of a field; undefined for the default. A text that is no number stays, and the deploy rejects it. */
function read(field, { type, default: usual, items }) {
  const value = type === 'boolean' ? field.prop('checked') : field.val();
  if (value === usual || value === '') return undefined;
  const number = (text) => (Number.isNaN(Number(text)) ? text : Number(text));
  if (type !== 'array') return type === 'integer' || type === 'number' ? number(value) : value;
  const parts = value.split(',').map((one) => one.trim());
  return items ? parts.map(number) : [...new Set(parts)].filter(Boolean);
}

/**
 * Keeps fields for the options in `rows`. `all`: the tables of options of every choice; `current`: that of the chosen one.
 * Returns `draw` for another choice, which takes the options of the one before from `init`, unless it is told to keep them.
 */
export function keep({ node, rows, init, prefix, all, current }) {
  const idOf = (name) => `modelet-${prefix}-${name}`;

  const fill = () => {
    const values = init.read();
    for (const [name, option] of Object.entries(current())) {
      const field = rows.find(`#${idOf(name)}`).prop('disabled', values === null);
      if (values !== null) show(field, option, values[name]);
    }
  };

  const row = ([name, option]) => {
    const field = fieldFor(node, idOf(name), name, option);
    field.on('change input', () => init.write({ [name]: read(field, option) }));
    const label = $('<label>').attr('for', idOf(name));
    label.append('<i class="fa fa-sliders"></i> ', $('<span>').text(node._(`modelet-stage.option.${name}`)));
    const hint = $('<div class="modelet-hint">').text(node._(`modelet-stage.optionTip.${name}`));
    return $('<div class="form-row">').append(label, ' ', field, hint);
  };

  const draw = () => {
    rows.empty().append(Object.entries(current()).map(row));
    fill();
  };

  /** Options of the choice before would be mistakes now. */
  const forget = () => {
    const others = all.flatMap((options) => Object.keys(options));
    const foreign = Object.keys(init.read() ?? {}).filter((name) => others.includes(name) && !(name in current()));
    if (foreign.length > 0) init.write(Object.fromEntries(foreign.map((name) => [name, undefined])));
  };

  init.follow(fill);
  draw();
  return { draw, forget };
}

/** Connects the fields in the open dialog `form` with its field of `init`. */
export function attach(node, form) {
  const init = jsonObject(form.find('#node-input-init'));
  const task = form.find('#node-input-task');
  const chosen = task.val();
  group(node, task);
  task.val(chosen);
  const fields = keep({
    ...{ node, init, prefix: 'task', rows: form.find('#modelet-stage-options') },
    all: Object.values(window.modelet.tasks).map(({ options }) => options),
    current: () => window.modelet.tasks[task.val()]?.options ?? {},
  });
  task.on('change', () => {
    if (form.find('#node-input-source').val() === 'task') fields.forget();
    fields.draw();
  });
}
