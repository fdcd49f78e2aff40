/** The canvas of the editor: follows its wires, and puts nodes on it so that one undo takes them back. */

/** Returns the properties of a new node. */
export function defaultsOf(type) {
  const { defaults } = RED.nodes.getType(type) ?? { defaults: {} };
  return Object.fromEntries(Object.entries(defaults).map(([name, { value }]) => [name, structuredClone(value)]));
}

/** The width of a label as the editor draws it, in px. */
export function widthOf(label) {
  return RED.view.calculateTextWidth(label, 'red-ui-flow-node-label');
}

/** Nodes that only pass messages on. */
const PASSING = ['junction', 'link in', 'link out'];
const OPPOSITE = { source: 'target', target: 'source' };
/** The node whose links lead on to that side. */
const LINKED = { source: 'link in', target: 'link out' };

/** Returns the nodes at the other ends of a node's wires and links. `side`: `source`, those that send to it, or `target`. */
export function neighbours(node, side) {
  const wired = RED.nodes.filterLinks({ [OPPOSITE[side]]: { id: node.id } }).map((link) => link[side]);
  const links = node.type === LINKED[side] ? (node.links ?? []) : [];
  return [...wired, ...links.map((id) => RED.nodes.node(id)).filter(Boolean)];
}

/** Returns the nearest nodes on that side that do more than pass messages on. */
export function nearest(node, side, passed = new Set()) {
  return neighbours(node, side).flatMap((next) => {
    if (passed.has(next.id)) return [];
    passed.add(next.id);
    return PASSING.includes(next.type) ? nearest(next, side, passed) : [next];
  });
}

/** Returns the batcher that sends to a stage; null without one. */
export function batcherOf(stage) {
  return nearest(stage, 'source').find(({ type }) => type === 'modelet-batcher') ?? null;
}

/** Returns a tab on which nodes may be put, and the events that made it: that which is shown, if it can be changed. */
export function openTab() {
  const active = RED.workspaces.active();
  const tab = RED.nodes.workspace(active);
  if (tab && !tab.locked) return { tab: active, events: [] };
  const made = RED.workspaces.add(null, true);
  RED.workspaces.show(made.id);
  return { tab: made.id, events: [{ t: 'add', workspaces: [made] }] };
}

/** Returns the first height on a tab, a multiple of the grid, below all that is there. */
export function freeTop(tab) {
  const bottoms = [
    ...RED.nodes.filterNodes({ z: tab }).map(({ y, h = 30 }) => y + h / 2),
    ...RED.nodes.groups(tab).map(({ y, h }) => y + h),
  ];
  return bottoms.length === 0 ? 25 : 20 * Math.ceil((Math.max(...bottoms) + 30) / 20) + 5;
}

/** Adds nodes with their wires and groups. Returns the event by which an undo removes them. */
export function addNodes(nodes) {
  const whole = nodes.map((node) => (node.type === 'group' ? node : { ...defaultsOf(node.type), ...node }));
  const made = RED.nodes.import(whole, { generateIds: false, markChanged: true });
  const ids = nodes.filter(({ type }) => type !== 'group').map(({ id }) => id);
  return { t: 'add', nodes: ids, groups: made.groups, links: made.links };
}

/** Ends a change: all events are one step of the history. */
export function commit(events, wasDirty, selected) {
  RED.history.push({ t: 'multi', events, dirty: wasDirty });
  RED.nodes.dirty(true);
  RED.view.select({ nodes: selected.map((id) => RED.nodes.node(id)) });
  RED.view.redraw(true);
  RED.view.focus();
}
