/**
 * Tabs of a dialog. A tab shows whether a field on it differs from its default, and whether one cannot be used. A dialog may
 * open at a field.
 */
import { current } from './form.js';

const MARKS = { bad: 'fa-exclamation-triangle modelet-bad', changed: 'fa-circle' };

/** A reference to a config node has no default that it could differ from. */
function isChanged(node, field) {
  const property = field.id.replace(/^node-input-/, '');
  const definition = node._def.defaults[property];
  if (!definition || definition.type) return false;
  return String(current(node, property)) !== String(definition.value);
}

/**
 * options: `node`, `form` (the dialog), `list` (id of a ul), `pages` ([{id, label, marksChanges}]: an id is that of an
 * element in the form), `texts` ({bad, changed}: tooltips of the marks), `onshow(id)`, called for each page that comes
 * into sight.
 */
export function create({ node, form, list, pages, texts, onshow }) {
  const mark = ({ id, marksChanges }) => {
    const fields = form.find(`#${id} [id^="node-input-"]`);
    const isBad = fields.is('.input-error');
    const kind = isBad ? 'bad' : marksChanges && fields.get().some((field) => isChanged(node, field)) && 'changed';
    const badge = $(`#red-ui-tab-${id} .red-ui-tabs-badges`).empty();
    if (!kind) return;
    $('<i>')
      .addClass(`fa ${MARKS[kind]} modelet-tab-mark`)
      .attr({ role: 'img', 'aria-label': texts[kind], title: texts[kind] })
      .appendTo(badge);
  };
  const markAll = () => {
    for (const page of pages) mark(page);
  };

  const tabs = RED.tabs.create({
    id: list,
    onchange: ({ id }) => {
      for (const page of pages) form.find(`#${page.id}`).prop('hidden', page.id !== id);
      markAll();
      onshow(id);
    },
  });
  for (const { id, label } of pages) tabs.addTab({ id, label });
  // Node-RED marks a field after the event that changes it.
  form.on('change keyup', ':input', () => setTimeout(markAll));
  // It validates the fields when the dialog is there.
  setTimeout(markAll);
  if (wanted?.id === node.id) showField(tabs, form);
  return { resize: () => tabs.resize(), show: (id) => tabs.activateTab(id) };
}

/** The node whose dialog opens, and the property at which it opens; null: at its first tab. */
let wanted = null;

function showField(tabs, form) {
  const field = form.find(`#node-input-${wanted.property}`);
  wanted = null;
  // Node-RED gives the focus to the first field when the dialog is there.
  form.closest('.red-ui-tray').one('focusin', () => setTimeout(() => field.trigger('focus')));
  tabs.activateTab(field.closest('.modelet-page').attr('id'));
}

/** Opens the dialog of a node at the field of a property. */
export function openAt(node, property) {
  wanted = { id: node.id, property };
  RED.editor.edit(node);
}
