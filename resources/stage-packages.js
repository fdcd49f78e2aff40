/**
 * Says in a stage's dialog whether the runtime of its source is there, an npm package or Python with the packages of the file,
 * and installs it at the press of a button.
 */
import { listRows } from './form.js';
import { field } from './modules-list.js';

const URL = 'modelets/packages';
const EVERY_MS = 1000;
const SOURCES = ['onnx', 'python', 'python-code', 'task'];

/** Returns lines with icons: the packages found, the missing ones, and the reason if no button installs these. */
function linesOf({ found, missing = [], unknown = [], what, refused, unsuited, error }, say) {
  const absent = [...missing, ...unknown].join(', ');
  const why = refused ? say('refused', { setting: refused }) : say('byHand');
  return [
    [error, 'fa-times modelet-bad'],
    [unsuited && say('unsuited', { why: unsuited })],
    [found, 'fa-check modelet-good'],
    [absent && say('missing', { names: absent }), 'fa-times modelet-bad'],
    [unknown.length > 0 && say('unknown', { names: unknown.join(', ') })],
    [missing.length > 0 && (refused || !what) && why],
  ].filter(([words]) => words);
}

/** Watches the open dialog `form`. Returns `{show, stop}`: call `show` when source, path or interpreter have changed. */
export function watch(node, form) {
  const row = form.find('#modelet-stage-packages-row');
  const text = form.find('#modelet-stage-packages');
  const button = form.find('#modelet-stage-install').hide();
  const progress = form.find('#modelet-stage-install-state');
  const log = form.find('#modelet-stage-install-log').hide();
  const say = (key, values) => node._(`modelet-stage.packages.${key}`, values);
  const fields = () => {
    const source = form.find('#node-input-source').val();
    const python = form.find('#node-input-python').val().trim();
    if (source === 'task') return { source, task: form.find('#node-input-task').val() };
    const takes = form.find('#modelet-onnx-takes').val();
    if (source !== 'python-code') return { source, path: form.find('#node-input-path').val().trim(), python, takes };
    return { source, python, requirements: JSON.stringify(entriesOf(form.find('#modelet-stage-requirements'))) };
  };
  let isOpen = true;
  let timer = null;

  const describe = (answer) => {
    const { what = '', refused } = answer;
    const lines = linesOf(answer, say).map(([words, icon]) =>
      $('<div>').append(icon ? [$('<i>').addClass(`fa ${icon}`), ' '] : [], $('<span>').text(words)),
    );
    text.empty().append(lines);
    button
      .toggle(Boolean(what && !refused))
      .find('span')
      .text(say('install', { names: what }));
  };

  const report = (installation) => {
    const { state, what, seconds, code, restarted, output = '' } = installation;
    const isRestarted = state === 'done' && restarted === node.id;
    const words = isRestarted ? 'restarted' : ({ none: '', failed: `failed.${code}` }[state] ?? state);
    progress.text(words && say(words, { names: what, seconds })).toggleClass('modelet-bad', state === 'failed');
    // Progress has its last line, a failure all that was kept.
    const lines = output.trim().split('\n');
    log.text(state === 'running' ? lines[lines.length - 1] : output.trim()).toggle(output.trim() !== '');
    button.prop('disabled', state === 'running');
    clearTimeout(timer);
    if (state === 'running' && isOpen) timer = setTimeout(poll, EVERY_MS);
  };

  const poll = () => {
    $.getJSON(`${URL}/installation`)
      .done((installation) => {
        if (!isOpen) return;
        report(installation);
        // Also the inputs and outputs of the model can be read now.
        if (installation.state !== 'running') form.find('#node-input-path').trigger('change');
      })
      // Node-RED may be restarting.
      .fail(() => {
        if (isOpen) timer = setTimeout(poll, EVERY_MS);
      });
  };

  const look = () => {
    const asked = fields();
    const problem = asked.requirements && problemOf(JSON.parse(asked.requirements));
    if (problem) {
      describe({ error: node._(`modelet-stage.error.${problem.error}`, problem.values) });
      return;
    }
    const isCurrent = () => isOpen && JSON.stringify(asked) === JSON.stringify(fields());
    $.getJSON(URL, asked)
      .done((answer) => {
        if (!isCurrent()) return;
        describe(answer);
        if (answer.installation?.state === 'running') report(answer.installation);
      })
      .fail(({ status, responseJSON }) => {
        if (!isCurrent()) return;
        describe({ error: status === 401 ? say('forbidden') : (responseJSON?.error ?? say('unreachable')) });
      });
  };

  button.on('click', (event) => {
    event.preventDefault();
    button.prop('disabled', true);
    // Node-RED gives the deployed stage new workers after it, also if the dialog is closed by then.
    const data = JSON.stringify({ ...fields(), stage: node.id });
    $.ajax({ url: URL, method: 'POST', contentType: 'application/json', data })
      .done((installation) => isOpen && report(installation))
      .fail(({ responseJSON }) => {
        if (!isOpen) return;
        button.prop('disabled', false);
        progress.addClass('modelet-bad').text(responseJSON?.error ?? say('unreachable'));
      });
  });

  const show = () => {
    const isShown = SOURCES.includes(fields().source);
    row.toggle(isShown);
    button.hide();
    text.text(isShown ? say('looking') : '');
    if (isShown) look();
  };
  const stop = () => {
    isOpen = false;
    clearTimeout(timer);
  };
  return { show, stop };
}

/** The rows of the list of packages that are not blank. */
function entriesOf(list) {
  const texts = listRows(list).map(({ input }) => input.val().trim());
  return texts.filter((text) => text !== '');
}

/** The fault of a list of packages, as a key of the catalog and its values; null if nothing is. */
export function problemOf(requirements) {
  try {
    window.modelet.formats.parseRequirements(requirements);
    return null;
  } catch ({ reason: error, values }) {
    return { error, values };
  }
}

/** The list of the packages of Python code: `list` is an ol, and `onchange` is called at each change. */
export function list({ node, list: rows, requirements, onchange }) {
  const text = (key, values) => node._(`modelet-stage.${key}`, values);
  const check = () => {
    for (const { input, show } of listRows(rows)) {
      const problem = problemOf([input.val()]);
      show(problem ? text(`error.${problem.error}`, problem.values) : '');
    }
    onchange();
  };
  rows.editableList({
    addButton: text('libs.add'),
    height: 'auto',
    removable: true,
    removeItem: check,
    addItem: (container, _index, { requirement = '' }) => {
      const cell = $('<div class="modelet-lib">').appendTo(container);
      const row = field(cell, 'modelet-requirement', text('placeholder.requirement'), requirement);
      container.data('row', row);
      row.input.on('input', check);
    },
  });
  for (const requirement of requirements) rows.editableList('addItem', { requirement });
  return { entries: () => entriesOf(rows) };
}
