/**
 * Red triangles while wiring: posts the flows as they are drawn, and marks each node that a deploy would refuse. The
 * server judges, by the compiler of a deploy, because only that knows the rules, the files and the variables. Attaches
 * `window.modelet.wiring`. The validators of the nodes read it: see `wired` in form.js.
 */

const PAUSE_MS = 300;
/** Any of these may change a verdict, the last ones because a file may have come since, or a dialog have been open. */
const EVENTS = [
  ...['nodes:add', 'nodes:change', 'nodes:remove', 'links:add', 'links:remove', 'junctions:add', 'junctions:remove'],
  ...['flows:add', 'flows:change', 'flows:remove', 'subflows:change', 'workspace:dirty', 'editor:close'],
];
const AFRESH = ['flows:loaded', 'deploy'];
/** Properties of other packages' nodes that are posted: their places and wires. The rest stays in the browser. */
const OF_OTHERS = [
  ...['id', 'type', 'z', 'g', 'd', 'name', 'label', 'disabled', 'wires', 'in', 'out', 'env'],
  ...['links', 'linkType', 'mode', 'scope'],
];

let faults = new Map();
let judged = '';
let edits = 0;
let timer = null;

function isOurs({ type }) {
  return type.startsWith('modelet-');
}

function drawnFlows() {
  const flows = RED.nodes.createCompleteNodeSet({ credentials: false });
  if (!flows.some(isOurs)) return [];
  return flows.map((node) => {
    const { x: _x, y: _y, info: _info, ...own } = node;
    if (isOurs(node)) return own;
    return Object.fromEntries(OF_OTHERS.filter((key) => key in node).map((key) => [key, node[key]]));
  });
}

function show(answer) {
  const ids = new Set([...faults.keys(), ...Object.keys(answer)]);
  faults = new Map(Object.entries(answer));
  mark(ids);
}

/** Forgets the faults of nodes that were just edited, until the next answer: Deploy would ask about faults that are gone. */
function forget(...ids) {
  const had = ids.filter((id) => faults.delete(id));
  // The next judgement must reach the server, even if the flows are again as judged.
  if (had.length > 0) judged = '';
  mark(new Set(had));
}

/** Node-RED validates a node when it is edited, and not when its wires change. */
function mark(ids) {
  for (const id of ids) {
    const node = RED.nodes.node(id);
    if (node) RED.editor.validateNode(node);
  }
  if (ids.size > 0) RED.view.redraw();
}

function judge() {
  timer = null;
  // The form of an open dialog is not part of the flows yet. Its close is an event.
  if (RED.editor.getEditStack().length > 0 || !RED.user.hasPermission('flows.write')) return;
  const flows = JSON.stringify({ flows: drawnFlows() });
  if (flows === judged) {
    show(Object.fromEntries(faults));
    return;
  }
  const seen = edits;
  // Without an answer (an older runtime half, flows that are too large) nothing is known, and nothing is marked.
  const settle = (answer) => {
    if (seen !== edits) return;
    judged = flows;
    show(answer);
  };
  $.ajax({ url: 'modelets/wiring', method: 'POST', contentType: 'application/json', data: flows })
    .done(({ faults: found }) => settle(found))
    .fail(() => settle({}));
}

/** Also takes back the question that is in progress: its answer would mark nodes that have been edited since. */
function schedule() {
  edits += 1;
  clearTimeout(timer);
  timer = setTimeout(judge, PAUSE_MS);
}

for (const event of EVENTS) RED.events.on(event, schedule);
for (const event of ['links:add', 'links:remove']) {
  RED.events.on(event, ({ source, target }) => forget(source.id, target.id));
}
RED.events.on('nodes:change', ({ id }) => forget(id));
for (const event of AFRESH) {
  RED.events.on(event, () => {
    judged = '';
    schedule();
  });
}

window.modelet ??= {};
window.modelet.wiring = { faultOf: ({ id }) => window.modelet.said?.(faults.get(id)) ?? faults.get(id) };
