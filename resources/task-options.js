/**
 * Fields for the task of a known model and its options. The options are a part of `init`, so a field writes to the JSON
 * there. Attaches `window.modelet.taskOptions`; safe to load more than once.
 */
(() => {
  'use strict';

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
  function fieldFor(node, name, { type, default: usual, enum: choices }) {
    const id = `modelet-task-${name}`;
    if (type === 'boolean') return $('<input type="checkbox">').attr('id', id);
    if (choices) {
      const text = (choice) => node._(`modelet-stage.choice.${choice}`);
      return $('<select>')
        .attr('id', id)
        .append(choices.map((choice) => $('<option>').val(choice).text(text(choice))));
    }
    const field = $('<input type="text">').attr({
      id,
      placeholder: usual ?? node._(`modelet-stage.optionExample.${name}`),
    });
    return type === 'integer' || type === 'number' ? field.addClass('modelet-number') : field;
  }

  function show(field, { type, default: usual }, value) {
    if (type === 'boolean') field.prop('checked', value ?? usual);
    else if (field.is('select')) field.val(value ?? usual);
    else field.val(Array.isArray(value) ? value.join(', ') : (value ?? ''));
  }

  /** Returns the value of a field; undefined for the default. A text that is no number stays, and the deploy rejects it. */
  function read(field, { type, default: usual }) {
    const value = type === 'boolean' ? field.prop('checked') : field.val();
    if (value === usual || value === '') return undefined;
    if (type === 'array') return [...new Set(value.split(',').map((one) => one.trim()))].filter(Boolean);
    return (type === 'integer' || type === 'number') && !Number.isNaN(Number(value)) ? Number(value) : value;
  }

  /** Connects the fields in the open dialog `form` with its field of `init`. */
  function attach(node, form) {
    const init = window.modelet.form.jsonObject(form.find('#node-input-init'));
    const task = form.find('#node-input-task');
    const rows = form.find('#modelet-stage-options');
    const options = () => window.modelet.tasks[task.val()]?.options ?? {};

    const fill = () => {
      const values = init.read();
      for (const [name, option] of Object.entries(options())) {
        const field = rows.find(`#modelet-task-${name}`).prop('disabled', values === null);
        if (values !== null) show(field, option, values[name]);
      }
    };

    const row = ([name, option]) => {
      const field = fieldFor(node, name, option).on('change input', () => init.write({ [name]: read(field, option) }));
      const label = $('<label>').attr('for', `modelet-task-${name}`);
      label.append('<i class="fa fa-sliders"></i> ', $('<span>').text(node._(`modelet-stage.option.${name}`)));
      const hint = $('<div class="modelet-hint">').text(node._(`modelet-stage.optionTip.${name}`));
      return $('<div class="form-row">').append(label, ' ', field, hint);
    };

    const draw = () => {
      rows.empty().append(Object.entries(options()).map(row));
      fill();
    };

    /** Options of the task before would be mistakes now. */
    const forget = () => {
      const others = Object.values(window.modelet.tasks).flatMap((one) => Object.keys(one.options));
      const foreign = Object.keys(init.read() ?? {}).filter((name) => others.includes(name) && !(name in options()));
      if (foreign.length > 0) init.write(Object.fromEntries(foreign.map((name) => [name, undefined])));
    };

    const chosen = task.val();
    group(node, task);
    task.val(chosen);
    task.on('change', () => {
      if (form.find('#node-input-source').val() === 'task') forget();
      draw();
    });
    init.follow(fill);
    draw();
  }

  window.modelet = window.modelet || {};
  window.modelet.taskOptions = { attach };
})();
