/**
 * Fields for the task of a known model and its options. The options are a part of `init`, so a field writes to the JSON
 * there. Attaches `window.modelet.taskOptions`; safe to load more than once.
 */
(() => {
  'use strict';

  /** Reads JSON with an object; null for anything else, which the field of the JSON itself complains about. */
  function parse(text) {
    try {
      const value = JSON.parse(text.trim() || '{}');
      return value !== null && typeof value === 'object' && !Array.isArray(value) ? value : null;
    } catch (_error) {
      return null;
    }
  }

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
    const init = form.find('#node-input-init');
    const task = form.find('#node-input-task');
    const rows = form.find('#modelet-stage-options');
    let isWriting = false;
    const options = () => window.modelet.tasks[task.val()]?.options ?? {};

    const write = (change) => {
      const values = parse(init.val());
      if (values === null) return;
      change(values);
      isWriting = true;
      init.val(JSON.stringify(values)).trigger('change');
      isWriting = false;
    };

    const fill = () => {
      if (isWriting) return;
      const values = parse(init.val());
      for (const [name, option] of Object.entries(options())) {
        const field = rows.find(`#modelet-task-${name}`).prop('disabled', values === null);
        if (values !== null) show(field, option, values[name]);
      }
    };

    const row = ([name, option]) => {
      const field = fieldFor(node, name, option).on('change input', () => {
        const value = read(field, option);
        write((values) => {
          if (value === undefined) delete values[name];
          else values[name] = value;
        });
      });
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
      const foreign = Object.keys(parse(init.val()) ?? {}).filter(
        (name) => others.includes(name) && !(name in options()),
      );
      if (foreign.length === 0) return;
      write((values) => {
        for (const name of foreign) delete values[name];
      });
    };

    const chosen = task.val();
    group(node, task);
    task.val(chosen);
    task.on('change', () => {
      if (form.find('#node-input-source').val() === 'task') forget();
      draw();
    });
    init.on('change keyup', fill);
    draw();
  }

  window.modelet = window.modelet || {};
  window.modelet.taskOptions = { attach };
})();
