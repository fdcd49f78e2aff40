/**
 * Actions on a stage that is drawn: *Add an endpoint to this stage* and *Put a batcher before this stage*, also in the menu of
 * the canvas. Call `add` once.
 */
import { notify } from '../sidebar-dom.js';
import { addNodes, batcherOf, commit, neighbours, widthOf } from './canvas.js';
import { freePath } from './form.js';
import { nodeWidth } from './layout.js';

const ACTIONS = { endpoint: 'modelets:add-endpoint', batcher: 'modelets:put-batcher' };
const ROW = 60;
const APART = 40;
/** Room for the badge of a batcher, in px. */
const BATCHER = 170;

const text = (key, values) =>
  RED._(`@modelet/node-red-pipeline/modelet-sidebar:modelet-sidebar.additions.${key}`, values);

const linksInto = (node) => RED.nodes.filterLinks({ target: node });
const linksFrom = (node) => RED.nodes.filterLinks({ source: node });

function isBehind(node, type) {
  const seen = new Set();
  const look = (one) => {
    if (seen.has(one.id)) return false;
    seen.add(one.id);
    return one.type === type || neighbours(one, 'source').some(look);
  };
  return look(node);
}

/** Returns the node and all that is wired behind it. */
function withSuccessors(node, found = new Set()) {
  if (found.has(node)) return found;
  found.add(node);
  for (const { target } of linksFrom(node)) withSuccessors(target, found);
  return found;
}

/** Returns why nothing may be added to the selected stage, as a key of the catalog; null if it may. */
function refusal(nodes, kind) {
  const [stage] = nodes;
  if (nodes.length !== 1 || stage.type !== 'modelet-stage') return 'one';
  if (RED.workspaces.isLocked()) return 'locked';
  const others = RED.nodes.filterNodes({ type: 'modelet-stage' });
  if (others.some(({ versions = [] }) => versions.includes(stage.id))) return 'version';
  if (kind === 'batcher') return batcherOf(stage) ? 'batched' : null;
  if (!RED.nodes.workspace(stage.z)) return 'subflow';
  return isBehind(stage, 'http in') ? 'served' : null;
}

const labelled = (type, label, props) => ({ id: RED.nodes.id(), type, wires: [], label, ...props });

const boxOf = (node) => nodeWidth(node, widthOf);

/** Moves a node and what is behind it to the right. Returns the event that undoes it. */
function shift(node, by) {
  const moved = [...withSuccessors(node)].map((n) => ({ n, ox: n.x, oy: n.y, moved: n.moved }));
  for (const { n } of moved) Object.assign(n, { x: n.x + by, moved: true, dirty: true });
  for (const { n } of moved) if (n.g) RED.group.markDirty(RED.nodes.group(n.g));
  return { t: 'move', nodes: moved };
}

/** Makes room of this width to the left of a node, and behind these others. Returns the events that undo it. */
function makeRoom(node, width, others) {
  const left = node.x - node.w / 2;
  const ends = others.map(({ x, w = 10 }) => x + w / 2);
  const missing = Math.max(40, ...ends.map((end) => end + APART)) + width + APART - left;
  return missing > 0 ? [shift(node, 20 * Math.ceil(missing / 20))] : [];
}

/** Returns the height nearest to `y` at which nothing lies in these columns: rather above, as badges are below their nodes. */
function freeRow(tab, left, right, y) {
  const boxes = [...RED.nodes.filterNodes({ z: tab }), ...RED.nodes.junctions(tab)];
  const isFree = (at) =>
    boxes.every(
      ({ x, y: top, w = 10 }) => Math.abs(top - at) >= ROW - 10 || x + w / 2 + 30 <= left || x - w / 2 - 30 >= right,
    );
  for (let away = 0; ; away += ROW) {
    const free = [y - away, y + away].find((at) => at > ROW && isFree(at));
    if (free !== undefined) return free;
  }
}

/** Places nodes in a row behind a left edge, and gives them tab and group of the stage. */
function inRow(stage, nodes, left, y) {
  let next = left;
  return nodes.map(({ label: _label, ...node }, at) => {
    const width = boxOf(nodes[at]);
    const x = next + width / 2;
    next += width + APART;
    return { ...node, x, y, z: stage.z };
  });
}

function joinGroup(stage, nodes) {
  const group = stage.g && RED.nodes.group(stage.g);
  if (!group) return;
  const made = nodes.map(({ id }) => RED.nodes.node(id));
  // The view measures them later, and the group asks for their sizes now.
  for (const [at, node] of made.entries()) Object.assign(node, { w: boxOf(nodes[at]), h: 30 });
  RED.group.addToGroup(group, made);
}

function link(source, sourcePort, target) {
  const made = { source, sourcePort, target };
  RED.nodes.addLink(made);
  return made;
}

function putBatcher(stage) {
  const dirty = RED.nodes.dirty();
  const events = makeRoom(stage, BATCHER, neighbours(stage, 'source'));
  const batcher = labelled('modelet-batcher', text('batcher.node'), { name: '' });
  const right = stage.x - stage.w / 2 - APART;
  const [placed] = inRow(stage, [batcher], right - BATCHER, stage.y);
  const added = addNodes([placed]);
  const before = linksInto(stage);
  for (const one of before) RED.nodes.removeLink(one);
  const node = RED.nodes.node(batcher.id);
  const links = [...before.map(({ source, sourcePort }) => link(source, sourcePort, node)), link(node, 0, stage)];
  joinGroup(stage, [batcher]);
  commit([...events, { ...added, links, removedLinks: before }], dirty, [batcher.id]);
  return {};
}

/** Follows the stages behind a stage. Returns the last of them, and the collector behind it, or null. */
function endOf(stage) {
  let [end, seen] = [stage, new Set()];
  for (;;) {
    seen.add(end);
    const targets = linksFrom(end).map(({ target }) => target);
    const collector = targets.find(({ type }) => type === 'modelet-collector');
    if (collector) return { end, collector };
    const [next] = targets;
    const goesOn = targets.length === 1 && ['modelet-stage', 'modelet-batcher'].includes(next.type);
    if (!goesOn || seen.has(next)) return { end, collector: null };
    end = next;
  }
}

/** The batcher before a stage belongs to it. No wire leads to another tab. */
function entryOf(stage) {
  const batcher = batcherOf(stage);
  return batcher?.z === stage.z ? batcher : stage;
}

function addEndpoint(stage) {
  const dirty = RED.nodes.dirty();
  const [entry, { end, collector }] = [entryOf(stage), endOf(stage)];
  const path = freePath(RED.utils.getNodeLabel(stage, stage.id));
  // Messages that come from elsewhere have no client who waits for an answer.
  const isMixed = linksInto(entry).length > 0;
  const httpIn = labelled('http in', `[post] ${path}`, { name: '', url: path, method: 'post' });
  const [collect, isHttp, response] = [
    labelled('modelet-collector', text('endpoint.collector'), { name: text('endpoint.collector') }),
    labelled('switch', text('endpoint.switch'), {
      ...{ name: text('endpoint.switch'), property: 'res', propertyType: 'msg', rules: [{ t: 'nnull' }], outputs: 1 },
    }),
    labelled('http response', text('endpoint.response'), { name: text('endpoint.response') }),
  ];
  const behind = [...(collector ? [] : [collect]), ...(isMixed ? [isHttp] : []), response];
  const events = makeRoom(entry, boxOf(httpIn), []);
  const left = entry.x - entry.w / 2 - APART - boxOf(httpIn);
  const last = collector ?? end;
  const start = last.x + last.w / 2 + APART;
  const width = behind.reduce((sum, node) => sum + boxOf(node) + APART, 0);
  const nodes = [
    ...inRow(stage, [httpIn], left, freeRow(stage.z, left, left + boxOf(httpIn), entry.y)),
    ...inRow(stage, behind, start, freeRow(stage.z, start, start + width, last.y)),
  ];
  const added = addNodes(nodes);
  const of = ({ id }) => RED.nodes.node(id);
  const chain = [...(collector ? [collector] : []), ...behind.map(of)];
  const links = [link(of(httpIn), 0, entry), ...(collector ? [] : [link(end, 0, chain[0])])];
  for (const [at, source] of chain.slice(0, -1).entries())
    for (let port = 0; port < source.outputs; port += 1) links.push(link(source, port, chain[at + 1]));
  // A frame around it would take in the other sources, which are beside it.
  joinGroup(stage, isMixed ? behind : [httpIn, ...behind]);
  commit([...events, { ...added, links }], dirty, [httpIn.id]);
  return { path };
}

const DO = { endpoint: addEndpoint, batcher: putBatcher };

function run(kind) {
  const { nodes = [] } = RED.view.selection();
  const reason = refusal(nodes, kind);
  if (reason) {
    RED.notify(text(`refused.${reason}`), 'warning');
    return;
  }
  const name = RED.utils.getNodeLabel(nodes[0], nodes[0].id);
  const values = { name, ...DO[kind](nodes[0]), interpolation: { escapeValue: false } };
  notify(text(`${kind}.done`, values), { type: 'success', timeout: 8000 });
}

/** Entries for the menu of the canvas. */
export function entries() {
  const { nodes = [] } = RED.view.selection();
  const isStage = nodes.length === 1 && nodes[0].type === 'modelet-stage';
  return isStage ? Object.entries(ACTIONS).map(([kind, onselect]) => ({ onselect, label: text(`${kind}.label`) })) : [];
}

export function add() {
  for (const [kind, action] of Object.entries(ACTIONS))
    RED.actions.add(action, () => run(kind), { label: text(`${kind}.label`) });
}
