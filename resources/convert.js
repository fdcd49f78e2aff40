/**
 * Turns function nodes, and exec nodes that run Python, into stages, and inline stages into function nodes: an action, also in
 * the context menu of the canvas. The server reads the code and says what does not carry over. A converted node keeps its id,
 * place, group and wires, and one undo takes all back.
 */
import { entries } from './new-pipeline/additions.js';
import { defaultsOf } from './new-pipeline/canvas.js';
import { notify } from './sidebar-dom.js';
import { runtimeFor } from './stage-runtime.js';

const TARGETS = { function: 'modelet-stage', exec: 'modelet-stage', 'modelet-stage': 'function' };
const ACTIONS = { function: 'modelets:function-to-stage', 'modelet-stage': 'modelets:stage-to-function' };
const KEYS = { function: 'toStage', exec: 'toStage', 'modelet-stage': 'toFunction' };
const FIELDS = { setup: 'initialize', code: 'func', teardown: 'finalize' };
const text = (key, values) =>
  RED._(`@modelet/node-red-pipeline/modelet-sidebar:modelet-sidebar.convert.${key}`, values);

function labelOf(node) {
  return RED.utils.getNodeLabel(node, node.id);
}

/** The selected nodes of a type that can be changed. */
function selected(type) {
  const { nodes = [] } = RED.view.selection();
  // Only those exec nodes that run Python.
  const isMeant = (node) =>
    node.type === type || (type === 'function' && node.type === 'exec' && /\bpython/.test(node.command));
  return RED.workspaces.isLocked() ? [] : nodes.filter(isMeant);
}

/** Resolves with `{properties, obstacles}`. */
function ask(node) {
  const data = JSON.stringify({ node: RED.nodes.convertNode(node) });
  return $.ajax({ url: 'modelets/convert', type: 'POST', contentType: 'application/json', data });
}

function reasonOf(type, { tab, line, reason, name }) {
  const where = text(`tab.${type === 'modelet-stage' ? `stage.${tab}` : tab}`);
  return text('obstacle', {
    where,
    line,
    name,
    reason: text(`reason.${reason}`),
    interpolation: { escapeValue: false },
  });
}

/** Writes each reason above its line, as a comment. */
function marked(code, type, obstacles) {
  const lines = code.split('\n');
  for (const obstacle of obstacles.toReversed()) {
    const indent = /^\s*/.exec(lines[obstacle.line - 1] ?? '')[0];
    lines.splice(obstacle.line - 1, 0, `${indent}// modelet: ${reasonOf(type, obstacle)}`);
  }
  return lines.join('\n');
}

/** Returns the properties of the converted node, with the obstacles as comments in its code. */
function withMarks(type, { properties, obstacles }) {
  if (type === 'exec') return withMarksInPython(properties, obstacles);
  const result = { ...properties };
  for (const [tab, field] of Object.entries(FIELDS)) {
    const property = type === 'function' ? tab : field;
    const own = obstacles.filter((obstacle) => obstacle.tab === tab);
    // The code that surrounds that of a stage moves its lines.
    if (type === 'function') result[property] = marked(result[property], type, own);
    else if (own.length > 0)
      result[property] = `${own.map((one) => `// modelet: ${reasonOf(type, one)}\n`).join('')}${result[property]}`;
  }
  return result;
}

/** Does that for an exec node. A stage with a file has no place for comments. */
function withMarksInPython(properties, obstacles) {
  const marks = obstacles.map((one) => `# modelet: ${reasonOf('exec', one)}\n`).join('');
  return properties.code === undefined ? properties : { ...properties, code: `${marks}${properties.code}` };
}

/** Replaces a node in the workspace. Returns the events that undo it. */
function replace(node, properties) {
  const type = TARGETS[node.type];
  const events = [];
  let own = properties;
  if (type === 'modelet-stage') {
    const { id, events: made } = runtimeFor(node);
    events.push(...made);
    own = { ...properties, runtime: id };
  }
  const values = defaultsOf(type);
  const { id, z, x, y, g, d, l, info, name } = node;
  const kept = {
    id,
    type,
    z,
    x,
    y,
    name,
    wires: [],
    ...(d && { d }),
    ...(l !== undefined && { l }),
    ...(info && { info }),
  };
  const { links } = RED.nodes.remove(id);
  leaveGroup(node);
  events.push({ t: 'delete', nodes: [node], links });
  RED.nodes.import([{ ...values, ...own, ...kept }], { generateIds: false, markChanged: true });
  const made = RED.nodes.node(id);
  // The view measures it when it draws it, which is after its group and its wires have asked for its size.
  Object.assign(made, { w: node.w, h: node.h, resize: true, dirty: true });
  if (g) RED.group.addToGroup(RED.nodes.group(g), made);
  const moved = links
    .filter(({ source, sourcePort }) => source !== node || sourcePort < made.outputs)
    .map(({ source, sourcePort, target }) => ({
      source: source === node ? made : source,
      sourcePort,
      target: target === node ? made : target,
    }));
  for (const link of moved) RED.nodes.addLink(link);
  events.push({ t: 'add', nodes: [id], links: moved });
  return events;
}

/** As an undo does: the node keeps the id of its group, by which it finds its way back. */
function leaveGroup(node) {
  const group = node.g && RED.nodes.group(node.g);
  if (!group) return;
  group.nodes.splice(group.nodes.indexOf(node), 1);
  RED.group.markDirty(group);
}

function apply(nodes, answers) {
  const dirty = RED.nodes.dirty();
  const events = nodes.flatMap((node, at) => replace(node, withMarks(node.type, answers[at])));
  RED.history.push({ t: 'multi', events, dirty });
  RED.nodes.dirty(true);
  RED.view.select({ nodes: nodes.map(({ id }) => RED.nodes.node(id)) });
  RED.view.redraw(true);
  RED.view.focus();
  notify(
    text(`${KEYS[nodes[0].type]}.done`, {
      names: nodes.map(labelOf).join(', '),
      interpolation: { escapeValue: false },
    }),
    { type: 'success', timeout: 5000 },
  );
}

/** Asks before it converts what cannot run as it is. */
function confirm(nodes, answers) {
  const content = $('<div>');
  $('<p>').text(text('some')).appendTo(content);
  nodes.forEach((node, at) => {
    const { obstacles } = answers[at];
    if (obstacles.length === 0) return;
    $('<b>').text(labelOf(node)).appendTo(content);
    const list = $('<ul>').appendTo(content);
    for (const obstacle of obstacles) $('<li>').text(reasonOf(node.type, obstacle)).appendTo(list);
  });
  const close = () => notification.close();
  const convert = () => {
    close();
    apply(nodes, answers);
  };
  const notification = RED.notify(content[0], {
    ...{ type: 'warning', modal: true, fixed: true, id: 'modelet-convert' },
    buttons: [
      { text: text('cancel'), click: close },
      { text: text('anyway'), class: 'primary', click: convert },
    ],
  });
}

async function convert(type) {
  const nodes = selected(type);
  if (nodes.length === 0) {
    RED.notify(text(`${KEYS[type]}.none`), 'warning');
    return;
  }
  let answers;
  try {
    answers = await Promise.all(nodes.map(ask));
  } catch (failed) {
    notify(text('failed', { reason: failed.responseJSON?.error ?? failed.statusText }), 'error');
    return;
  }
  if (answers.some(({ obstacles }) => obstacles.length > 0)) confirm(nodes, answers);
  else apply(nodes, answers);
}

/** Node-RED has no way to add to the menu of the canvas, so ours is added while it is made. */
function extendContextMenu() {
  const { show } = RED.contextMenu;
  RED.contextMenu.show = (options) => {
    const { init } = RED.menu;
    RED.menu.init = (menu) => {
      RED.menu.init = init;
      const types =
        options.type === 'workspace' ? Object.keys(ACTIONS).filter((type) => selected(type).length > 0) : [];
      const more = options.type === 'workspace' ? entries() : [];
      const own = [...types.map((type) => ({ onselect: ACTIONS[type], label: text(`${KEYS[type]}.label`) })), ...more];
      return init(own.length > 0 ? { ...menu, options: [...menu.options, null, ...own] } : menu);
    };
    try {
      show(options);
    } finally {
      RED.menu.init = init;
    }
  };
}

export function add() {
  RED.actions.add(ACTIONS.function, () => convert('function'), { label: text('toStage.label') });
  RED.actions.add(ACTIONS['modelet-stage'], () => convert('modelet-stage'), { label: text('toFunction.label') });
  extendContextMenu();
}
