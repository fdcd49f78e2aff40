/**
 * Makes the definition of a node for `RED.nodes.registerType`: of the table that the build made of its schema (see
 * scripts/editor-halves.mjs) and of what is special about it. Attaches `window.modelet.defineNode`.
 */
import * as form from './form.js';

function defaultsOf(type, text, checks, starts) {
  const defaultOf = (name, { refersTo, needed = false, default: value }) => {
    const isOne = refersTo && !refersTo.endsWith('[]');
    // Node-RED validates the reference to a config node itself.
    if (isOne) return { value, type: refersTo, required: needed, label: text(`label.${name}`) };
    // The type makes Node-RED give a copy the ids of copies.
    const list = refersTo ? { type: refersTo } : {};
    return { value: starts[name] ?? value, validate: form.validator(name, checks[name]), ...list };
  };
  const { properties } = window.modelet.tables[type];
  return Object.fromEntries(Object.entries(properties).map(([name, declared]) => [name, defaultOf(name, declared)]));
}

/** A button beside a field with JSON opens the JSON editor. */
function editJson(node, property) {
  const { type } = node;
  const field = form.fieldOf(node, property);
  const button = $(`#${type}-${property}-edit`);
  const label = node._(`${type}.label.${property}`);
  RED.popover.tooltip(button, node._(`${type}.editJson`));
  button.attr('aria-label', node._(`${type}.editJsonOf`, { label }));
  // A field has one line; the editor gets the JSON laid out, and as it is if it cannot be read.
  const layOut = (value, indent) => {
    try {
      return JSON.stringify(JSON.parse(value), null, indent);
    } catch (_error) {
      return value;
    }
  };
  button.on('click', (event) => {
    event.preventDefault();
    const complete = (value) => field.val(layOut(value.trim())).trigger('change');
    RED.editor.editJSON({ title: label, value: layOut(field.val().trim(), 2), complete });
  });
}

/** Unlike Node-RED's own type, a message property that is not needed may be blank. */
function typeProperty(field, isNeeded) {
  const validate = (v) => v === '' || RED.utils.validatePropertyExpression(v, {});
  const types = isNeeded ? ['msg'] : [{ value: 'msg', label: 'msg.', validate }];
  field.typedInput({ default: 'msg', types });
}

/**
 * Shows what has an effect: a row, or a part, with `data-row="capacity"` while that property has one, and a part with
 * `data-only-if="source=file python"` for these values.
 */
function followConditions(node, dialog) {
  const read = (property) => form.held(dialog.find(`#${form.idOf(node, property)}`)) ?? '';
  const parts = dialog.find('[data-row], [data-only-if]').get();
  const fieldsOf = ({ dataset: { row, onlyIf } }) =>
    row ? Object.keys(form.declared(node.type, row).onlyIf ?? {}) : [onlyIf.split('=')[0]];
  const hasEffect = ({ dataset: { row, onlyIf } }) => {
    if (row) return form.isUsed(node.type, row, read);
    const [property, values] = onlyIf.split('=');
    return values.split(' ').includes(read(property));
  };
  const update = (some) => {
    for (const part of some) $(part).toggle(hasEffect(part));
  };
  for (const property of new Set(parts.flatMap(fieldsOf))) {
    const mine = parts.filter((part) => fieldsOf(part).includes(property));
    form.fieldOf(node, property).on('change', () => update(mine));
  }
  const conditions = Object.keys(window.modelet.conditions[node.type]);
  const others = parts.filter(({ dataset }) => conditions.includes(dataset.row));
  if (others.length > 0) dialog.on('change input', () => update(others));
  update(parts);
}

function prepareForm(node) {
  form.showDefaults(node);
  const { properties } = window.modelet.tables[node.type];
  for (const [property, { format = '', needed, isExplained }] of Object.entries(properties)) {
    if (isExplained) form.explain(node, property);
    if (format === 'json' || format === 'json-schema') editJson(node, property);
    if (format.endsWith('property')) typeProperty(form.fieldOf(node, property), needed);
  }
  followConditions(node, form.fieldOf(node, 'name').closest('.modelet-form'));
}

/**
 * `special` has what registerType takes, which replaces what all nodes have, and: `outputs` (names of the ports),
 * `starts` (values of new nodes that are not those of the schema), `checks` (by property, see `validator` in form.js),
 * `conditions` (functions of `read` that say whether a property has an effect, beside those of the schema), `prepare`,
 * `save` and `close`, called on the node for its dialog. `save` may return what Node-RED takes from `oneditsave`.
 */
function defineNode(type, special) {
  const { outputs = [], starts = {}, checks = {}, conditions = {}, prepare, save, close, ...own } = special;
  window.modelet.conditions = { ...window.modelet.conditions, [type]: conditions };
  const { properties, credentials } = window.modelet.tables[type];
  const text = (key) => RED._(`@modelet/node-red-pipeline/${type}:${type}.${key}`);
  const port = (node, name) => node._(`${type}.port.${name}`);
  const end = function () {
    close?.call(this);
  };
  return {
    category: 'modelets',
    paletteLabel: text('palette'),
    defaults: defaultsOf(type, text, checks, starts),
    ...(Object.keys(credentials).length > 0 ? { credentials } : {}),
    inputs: 1,
    outputs: outputs.length,
    inputLabels() {
      return port(this, 'input');
    },
    outputLabels(index) {
      // A node with more ports than names has several of its last kind.
      return port(this, outputs[index] ?? outputs.at(-1));
    },
    label() {
      return this.name || this._(`${type}.${type.replace('modelet-', '')}`);
    },
    labelStyle() {
      return this.name ? 'node_label_italic' : '';
    },
    onadd() {
      // Imported and pasted nodes are in the workspace already, with the runtime they came with.
      if (properties.runtime && !this.runtime && !RED.nodes.node(this.id)) this.runtime = form.findRuntime(this);
    },
    oneditprepare() {
      prepareForm(this);
      prepare?.call(this);
    },
    oneditsave() {
      const more = save?.call(this);
      close?.call(this);
      return more;
    },
    oneditcancel: end,
    oneditdelete: end,
    ...own,
  };
}

/**
 * Lets the search of the palette find a node by its names in the docs and by the words that people type. It compares with
 * the type and with this attribute, which has the label.
 */
function findByWords(type) {
  if (!type.startsWith('modelet-')) return;
  const element = $(`.red-ui-palette-node[data-palette-type="${type}"]`);
  const words = RED._(`@modelet/node-red-pipeline/${type}:${type}.found`);
  if (element.length > 0) element.attr('data-palette-label', `${element.attr('data-palette-label')}, ${words}`);
}

/** Puts the category behind that of functions, once, unless the settings of Node-RED give it a place. */
let isPlaced = false;
function placeCategory() {
  const category = $('#red-ui-palette-container-modelets');
  if (isPlaced || category.length === 0) return;
  isPlaced = true;
  const order = RED.settings.paletteCategories || RED.settings.theme('palette.categories')?.order || [];
  if (!order.includes('modelets')) category.insertAfter('#red-ui-palette-container-function');
}

RED.events.on('registry:node-type-added', findByWords);
RED.events.on('registry:node-type-added', placeCategory);

window.modelet ??= {};
window.modelet.defineNode = defineNode;
