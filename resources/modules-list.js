/**
 * The list of modules in a stage's dialog. Checks each module's name and variable, and whether Node-RED's settings
 * allow it.
 */
import { listRows } from './form.js';

const TYPE = 'modelet-stage';

const BUILTIN = /^(node:[a-z_]\w*)(?:\/\w+)*$/;

/** Modules that Node-RED could not install at the last deploy, with the reasons. */
let missing = new Map();

RED.events.on('runtime-state', (event) => {
  if (event.error === 'missing-modules') missing = new Map(event.modules.map(({ module, error }) => [module, error]));
  // Another event with a text is about another trouble.
  else if (event.text || missing.size === 0) return;
  else missing = new Map();
  for (const stage of RED.nodes.filterNodes({ type: TYPE })) RED.editor.validateNode(stage);
  RED.view.redraw();
});

/** Whether the settings let Node-RED install it, as it says for the modules of function nodes. */
function mayUse(name, version) {
  const modules = RED.settings.get('externalModules.modules', {});
  const allowed = RED.utils.parseModuleList(modules.allowList || ['*']);
  const denied = RED.utils.parseModuleList(modules.denyList || []);
  return RED.utils.checkModuleAllowed(name, version || null, allowed, denied);
}

// The build compiles it of src/config/formats for the page of each node.
const formats = () => window.modelet.formats;

/** Returns why an npm module cannot be used, as a key of the catalog and its values; null if it can. */
export function problemOfModule(text) {
  try {
    const { package: name, version } = formats().splitModule(text);
    if (!mayUse(name, version)) return { error: 'notAllowed' };
    return missing.has(name) ? { error: 'notInstalled', values: { reason: missing.get(name) } } : null;
  } catch ({ reason: error }) {
    return { error };
  }
}

/** The same for a module of inline code, which may be one of Node's own. */
function problemOfLib(text) {
  const [, builtin] = BUILTIN.exec(text) || [];
  if (builtin === undefined) return problemOfModule(text);
  return mayUse(builtin) ? null : { error: 'notAllowed' };
}

/** Why there cannot be such a variable; `libs`: all entries of the list. */
function problemOfVariable(lib, libs) {
  try {
    formats().checkVariables([lib]);
    return libs.filter((other) => other.var === lib.var).length > 1 ? { error: 'twice' } : null;
  } catch ({ reason: error }) {
    return { error };
  }
}

/** The first thing that is wrong with a list: of which module or variable, and what; null if nothing is. */
export function problemOf(libs) {
  for (const lib of libs) {
    const module = problemOfLib(lib.module);
    if (module) return { name: lib.module, ...module };
    const variable = problemOfVariable(lib, libs);
    if (variable) return { name: lib.var || lib.module, ...variable };
  }
  return null;
}

/** A variable that fits a module's name, as the function node finds it: `jpegJs` for `jpeg-js@0.4`. */
function variableFor(module) {
  const name = module
    .replace(/^node:/, '')
    .replace(/^@/, '')
    .replace(/@.*$/, '');
  return name.replace(/[^\p{ID_Continue}]+(.?)/gu, (_all, next) => next.toUpperCase());
}

/** An input that turns red and says why while `problem()` gives a reason. */
export function field(cell, className, placeholder, value) {
  const input = $('<input type="text">').addClass(className).attr('placeholder', placeholder).val(value);
  const sign = $('<span class="modelet-lib-sign"><i class="fa fa-warning"></i></span>').hide();
  $('<div>').append(input, sign).appendTo(cell);
  let reason = '';
  RED.popover.tooltip(sign, () => reason);
  const show = (text) => {
    reason = text;
    input.toggleClass('input-error', text !== '').attr('title', text);
    sign.toggle(text !== '');
  };
  return { input, show };
}

/**
 * options: `node`, `list` (an ol), `libs` ([{var, module}]), `onchange(libs)`, called once and at each change.
 * `entries()` returns the rows of the list that are not blank.
 */
export function create({ node, list, libs, onchange }) {
  const text = (key, values) => node._(`${TYPE}.${key}`, values);
  const rows = () => listRows(list);
  const read = (row) => ({ var: row.variable.input.val().trim(), module: row.module.input.val().trim() });
  const isBlank = (lib) => lib.var === '' && lib.module === '';
  const entries = () =>
    rows()
      .map(read)
      .filter((lib) => !isBlank(lib));

  const check = () => {
    const all = entries();
    const tell = (problem) => (problem ? text(`error.${problem.error}`, problem.values) : '');
    for (const row of rows()) {
      const lib = read(row);
      row.module.show(isBlank(lib) ? '' : tell(problemOfLib(lib.module)));
      row.variable.show(isBlank(lib) ? '' : tell(problemOfVariable(lib, all)));
    }
    onchange(all);
  };

  list.editableList({
    header: $('<div>').append($('<div>').text(text('libs.module')), $('<div>').text(text('libs.variable'))),
    addButton: text('libs.add'),
    height: 'auto',
    removable: true,
    removeItem: check,
    addItem: (container, _index, lib) => {
      const cell = $('<div class="modelet-lib">').appendTo(container);
      const module = field(cell, 'modelet-lib-module', text('placeholder.module'), lib.module || '');
      const variable = field(cell, 'modelet-lib-var', text('placeholder.variable'), lib.var || '');
      container.data('row', { module, variable });
      // A name that the user has chosen stays.
      let isChosen = Boolean(lib.var);
      module.input.on('input', () => {
        if (!isChosen) variable.input.val(variableFor(module.input.val().trim()));
        check();
      });
      variable.input.on('input', () => {
        isChosen = variable.input.val().trim() !== '';
        check();
      });
    },
  });
  for (const lib of libs) list.editableList('addItem', lib);
  check();
  return { entries };
}
