/**
 * Helpers that the dialogs of all nodes share: values of fields, defaults, and validators that give a reason. Attaches
 * `window.modelet.form` for the pages of the nodes.
 *
 * Texts come from the node's own catalog: `<type>.label.<property>`, `<type>.error.<error>`, `<type>.tip.<property>`.
 */

const RUNTIME = 'modelet-runtime';

export function idOf(node, property) {
  return `${node._def.category === 'config' ? 'node-config-input' : 'node-input'}-${property}`;
}

export function fieldOf(node, property) {
  return $(`#${idOf(node, property)}`);
}

export function held(field) {
  return field.is(':checkbox') ? field.prop('checked') : field.val();
}

/**
 * The open form counts, but only for its own node: saving a config node validates other nodes meanwhile. Absent and
 * blank ones, as in flows of older versions, are at their default.
 */
export function current(node, property) {
  const isOpen = RED.editor.getEditStack().some((edited) => edited && edited.id === node.id);
  const field = fieldOf(node, property);
  const value = isOpen && field.length ? held(field) : node[property];
  return value === undefined || value === null || value === '' ? node._def.defaults[property].value : value;
}

/**
 * Shows the defaults of absent properties. Only in the fields: the node itself changes when the dialog is saved. But
 * Node-RED leaves the falsy defaults out of a new config node.
 */
export function showDefaults(node) {
  for (const [property, { value }] of Object.entries(node._def.defaults)) {
    const field = fieldOf(node, property);
    if (node[property] === undefined && field.is(':checkbox')) field.prop('checked', value);
    else if (node[property] === undefined) field.val(value);
    if (node._def.category === 'config') node[property] ??= value;
  }
}

/** Explains the chosen value below its field, with the text `tip.<property>.<value>`. */
export function explain(node, property) {
  const field = fieldOf(node, property);
  const hint = field.nextAll('.modelet-hint').first();
  field.on('change', () => {
    const value = field.val();
    hint.html(value ? node._(`${node.type}.tip.${property}.${value}`) : '');
  });
}

/**
 * A field with a JSON object of which other fields show parts. `read` returns null for anything else, of which the field
 * itself complains; `write` sets members, and removes those that are undefined; `follow` calls `show` when a user edits it.
 */
export function jsonObject(field) {
  let isWriting = false;
  const read = () => {
    try {
      const value = JSON.parse(field.val().trim() || '{}');
      return value !== null && typeof value === 'object' && !Array.isArray(value) ? value : null;
    } catch (_error) {
      return null;
    }
  };
  const write = (members) => {
    const object = read();
    if (object === null) return;
    for (const [name, value] of Object.entries(members)) {
      if (value === undefined) delete object[name];
      else object[name] = value;
    }
    isWriting = true;
    field.val(JSON.stringify(object)).trigger('change');
    isWriting = false;
  };
  const follow = (show) => field.on('change keyup', () => isWriting || show());
  return { read, write, follow };
}

/** Unfolds `details` if one of these properties is not at its default. */
export function unfoldIfTouched(node, details, properties) {
  const isTouched = properties.some((property) => {
    const field = details.find(`#node-input-${property}`);
    return String(held(field)) !== String(node._def.defaults[property].value);
  });
  details.prop('open', isTouched);
}

/** Id of the runtime that new nodes take: the first in the flows; blank while there is no runtime. */
export function findRuntime(node) {
  let found = '';
  RED.nodes.eachConfig((config) => {
    const isInScope = !config.z || config.z === node.z;
    if (!found && config.type === RUNTIME && isInScope && !config.d) found = config.id;
  });
  return found;
}

/** As last deployed. The nodes of a subflow run in its instances only, under other ids. */
export function isRunning(node) {
  const flow = RED.nodes.originalFlow() || [];
  const find = (id) => flow.find((other) => other.id === id);
  const [own, tab] = [find(node.id), find(node.z)];
  return Boolean(own && !own.d && tab && tab.type === 'tab' && !tab.disabled);
}

/** Returns a validator's reason against a value. */
export function fail(node, property, error, values) {
  return `${node._(`${node.type}.label.${property}`)}: ${node._(`${node.type}.error.${error}`, values)}`;
}

/** Returns the schema of a property, or a credential. The build makes these tables: see scripts/editor-halves.mjs. */
export function declared(type, property) {
  const { properties, credentials } = window.modelet.tables[type];
  return properties[property] ?? credentials[property];
}

/**
 * Whether a property, or a credential, has an effect. `read(property)` returns the value of another. The conditions are
 * those of the schema and, beside them, those of the dialog.
 */
export function isUsed(type, property, read) {
  const { onlyIf = {} } = declared(type, property);
  const condition = window.modelet.conditions[type][property];
  return Object.entries(onlyIf).every(([other, values]) => values.includes(read(other))) && condition?.(read) !== false;
}

function problemOfNumber(text, isWhole, { minimum: min, maximum: max }) {
  const pattern = isWhole ? /^\d+$/ : /^\d*\.?\d+$/;
  if (pattern.test(text) && Number(text) >= min && Number(text) <= max) return null;
  return { error: isWhole ? 'wholeNumber' : 'number', values: { min, max } };
}

function problemOfFormat(format, value, read) {
  // Node-RED replaces variables at deploy.
  if (/^\$[{(].+[})]$/.test(value)) return null;
  try {
    window.modelet.formats?.[format]?.(value, read);
  } catch ({ reason: error, values }) {
    return { error, values };
  }
  const result = format.endsWith('property') ? RED.utils.validatePropertyExpression(value, {}) : true;
  return result === true ? null : { error: 'property', values: { reason: result } };
}

/** Returns the objection of the schema to a value, as a key of the catalog with its values; null if it says nothing. */
function problemOf({ type, format, numeric, needed, ...bounds }, value, read) {
  const text = String(value).trim();
  if (type === 'integer' || type === 'number') return problemOfNumber(text, type === 'integer', bounds);
  if (text === '' && type !== 'array') return needed ? { error: 'missing' } : null;
  if (numeric) return problemOfNumber(text, numeric.isWhole, numeric);
  return format ? problemOfFormat(format, value, read) : null;
}

/** Returns the objection of the schema to a value. That to a hidden field has no effect, except that a choice must exist. */
function refusalOf(node, property, value, read) {
  const known = declared(node.type, property);
  const { enum: choices } = known;
  if (choices) return choices.includes(value) ? null : { error: 'unknown', values: { value } };
  return isUsed(node.type, property, read) ? problemOf(known, value, read) : null;
}

/**
 * Returns the validator of a property: what the schema says, then what `own` does, a check by the dialog; or as a text,
 * `own` is the reason for what the schema refuses. An absent property is one of a flow of an older version: it takes its
 * default. Node-RED takes the reason only of functions of two parameters, which are called on the node.
 */
export function validator(property, own) {
  return function (v, opt) {
    const value = v ?? this._def.defaults[property].value;
    const read = (other) => current(this, other);
    const refusal = refusalOf(this, property, value, read);
    if (refusal) return fail(this, property, typeof own === 'string' ? own : refusal.error, refusal.values);
    if (typeof own !== 'function' || !isUsed(this.type, property, read)) return true;
    return own.call(this, value, opt);
  };
}

/**
 * For the name, which every value fits: fails if the node cannot be used as it is drawn, by wiring.js. Invalid fields
 * have their own reasons, and an open dialog must not mark this field for the fault of another.
 */
export function wired(_v, _opt) {
  const fault = window.modelet.wiring?.faultOf(this);
  if (fault === undefined || RED.editor.getEditStack().some((edited) => edited && edited.id === this.id)) return true;
  const others = Object.entries(this._def.defaults).filter(([name, { validate }]) => validate && name !== 'name');
  // The tooltip of a node keeps every line whole, however long it is.
  const lines = fault.replace(/(.{40,60}) /g, '$1\n    ');
  return others.some(([property, { validate }]) => validate.call(this, this[property], {}) !== true) || lines;
}

/** The rows of an editable list, as they are kept with its items. To the user, a row that fades away is gone. */
export function listRows(list) {
  return (
    list
      .children(':not(.red-ui-editableList-item-deleting)')
      .toArray()
      .map((item) => $(item).children('.red-ui-editableList-item-content').data('row'))
      // A row that was removed fades out, and tells the list of it when the dialog may be closed already.
      .filter((row) => row !== undefined)
  );
}

const UNITS = [
  [1e9, 'GB'],
  [1e6, 'MB'],
  [1e3, 'kB'],
  [1, 'B'],
];

export function sizeText(bytes) {
  const [unit, name] = UNITS.find(([size]) => bytes >= size) ?? [1, 'B'];
  const value = bytes / unit;
  return `${value < 10 && unit > 1 ? value.toFixed(1) : Math.round(value)} ${name}`;
}

window.modelet ??= {};
window.modelet.form = { current, fail, wired };
