/** The list of versions in a stage's dialog: other stages of its runtime, each with its share and whether it answers. */
import { current, listRows } from './form.js';

const TYPE = 'modelet-stage';
const SHARE = /^\d*\.?\d+$/;
const MODES = ['answer', 'shadow'];

function isShare(text) {
  return SHARE.test(text) && Number(text) <= 100;
}

/** The rows of a node's list. A flow of an older version has none. */
export function rowsOf({ versions, shares }) {
  return (versions || []).map((stage, index) => ({ stage, share: '0', mode: 'answer', ...(shares || [])[index] }));
}

/** The properties of a node with these rows. */
export function propertiesOf(rows) {
  const shares = rows.map(({ share, mode }) => ({ share, mode }));
  return { versions: rows.map(({ stage }) => stage), shares };
}

/** The stages that may be versions of a stage: of its runtime, and of its subflow if it is in one. */
function candidates(node) {
  const runtime = current(node, 'runtime');
  const subflow = RED.nodes.subflow(node.z);
  return RED.nodes.filterNodes({ type: TYPE }).filter((stage) => {
    const isInReach = subflow ? stage.z === node.z : !RED.nodes.subflow(stage.z);
    return stage.id !== node.id && stage.runtime === runtime && isInReach;
  });
}

/** Why a row cannot be used, as a key of the catalog; null if it can. `rows`: all rows. */
function problemOfRow(node, row, rows) {
  if (!candidates(node).some(({ id }) => id === row.stage)) return 'versionStage';
  if (rows.filter(({ stage }) => stage === row.stage).length > 1) return 'versionTwice';
  return isShare(String(row.share)) ? null : 'versionShare';
}

function sumOf(rows) {
  const shares = rows.filter(({ mode }) => mode !== 'shadow').map(({ share }) => Number(share) || 0);
  return shares.reduce((sum, share) => sum + share, 0);
}

/** The first thing that is wrong with a list, as a key of the catalog; null if nothing is. */
export function problemOf(node, rows) {
  const problem = rows.map((row) => problemOfRow(node, row, rows)).find((found) => found !== null);
  return problem ?? (sumOf(rows) > 100 + 1e-6 ? 'versionSum' : null);
}

function selectIn(cell, label, options, value) {
  const select = $('<select>').attr('aria-label', label);
  for (const [key, text] of options) $('<option>').val(key).text(text).appendTo(select);
  return select.val(value).appendTo(cell);
}

function buttonIn(cell, icon, label, onClick) {
  const button = $('<button type="button" class="red-ui-button">').attr({ title: label, 'aria-label': label });
  button
    .append($('<i>').addClass(`fa fa-${icon}`))
    .on('click', onClick)
    .appendTo(cell);
}

/**
 * options: `node`, `list` (an ol), `problem` (the element that says what is wrong), `rows` ([{stage, share, mode}]).
 * `entries()` returns the rows that have a stage.
 */
export function create({ node, list, problem, rows: given }) {
  const text = (key, values) => node._(`${TYPE}.${key}`, values);
  const rows = () => listRows(list);
  const read = ({ stage, share, mode }) => ({
    stage: stage.val() || '',
    share: share.val().trim(),
    mode: mode.val(),
  });
  const entries = () =>
    rows()
      .map(read)
      .filter(({ stage }) => stage !== '');

  const check = () => {
    const all = entries();
    for (const row of rows()) {
      const found = read(row);
      const wrong = found.stage === '' ? null : problemOfRow(node, found, all);
      row.stage.toggleClass('input-error', wrong === 'versionStage' || wrong === 'versionTwice');
      row.share.toggleClass('input-error', wrong === 'versionShare');
    }
    const wrong = problemOf(node, all);
    problem.text(wrong ? text(`error.${wrong}`) : '');
  };

  const promote = (row) => {
    for (const other of rows()) if (other.mode.val() === 'answer') other.share.val('0');
    row.mode.val('answer');
    row.share.val('100').trigger('change');
  };
  const rollBack = (row) => row.share.val('0').trigger('change');

  list.css('min-height', '80px').editableList({
    addButton: text('versions.add'),
    height: 'auto',
    removable: true,
    removeItem: check,
    addItem: (container, _index, version) => {
      const cell = $('<div class="modelet-version">').appendTo(container);
      const known = candidates(node).map((stage) => [stage.id, RED.utils.getNodeLabel(stage, stage.id)]);
      const isKnown = !version.stage || known.some(([id]) => id === version.stage);
      const options = [['', text('versions.choose')], ...known, ...(isKnown ? [] : [[version.stage, version.stage]])];
      const stage = selectIn(cell, text('versions.stage'), options, version.stage || '').addClass(
        'modelet-version-stage',
      );
      const share = $('<input type="text" class="modelet-number">').attr('aria-label', text('versions.share'));
      share.val(version.share ?? '0').appendTo(cell);
      $('<span class="modelet-unit">').text('%').appendTo(cell);
      const modes = MODES.map((mode) => [mode, text(`versions.${mode}`)]);
      const mode = selectIn(cell, text('versions.mode'), modes, version.mode || 'answer');
      const row = { stage, share, mode };
      buttonIn(cell, 'arrow-up', text('versions.promote'), () => promote(row));
      buttonIn(cell, 'arrow-down', text('versions.rollback'), () => rollBack(row));
      container.data('row', row);
      cell.on('change input', check);
      check();
    },
  });
  for (const version of given) list.editableList('addItem', version);
  check();
  return { entries };
}
