/**
 * Adds the page of the example "Dashboard of a pipeline" for a runtime, as nodes of FlowFuse Dashboard on a new tab:
 * the metrics node and all that it leads to, without what belongs to the example's own gate and errors. Attaches
 * `window.modelet.dashboardNodes`.
 */

const EXAMPLE = 'library/examples/flows/@modelet/node-red-pipeline/Dashboard of a pipeline';
/** In the example, these read its gate and its errors. */
const OF_EXAMPLE = ['change', 'function'];
/** Configuration of which one is enough for all pages. */
const SHARED = ['ui-base', 'ui-theme'];

const text = (key, values) => RED._(`@modelet/node-red-pipeline/modelet-metrics:modelet-metrics.${key}`, values);

/** Whether the nodes of FlowFuse Dashboard are installed. */
function areInstalled() {
  return Boolean(RED.nodes.getType('ui-chart'));
}

function presentOf(type) {
  let found;
  RED.nodes.eachConfig((node) => {
    if (node.type === type) found = node.id;
  });
  return found;
}

/** Returns the metrics node of a flow and all nodes that it needs, by id. */
function partOf(flow) {
  const byId = new Map(flow.map((node) => [node.id, node]));
  const kept = new Map();
  const keep = (id) => {
    const node = byId.get(id);
    if (!node || kept.has(id) || OF_EXAMPLE.includes(node.type)) return;
    kept.set(id, node);
    for (const next of [...(node.wires ?? []).flat(), node.group, node.page, node.ui, node.theme]) keep(next);
  };
  keep(flow.find(({ type }) => type === 'modelet-metrics').id);
  // Those that set up the charts when the flows start.
  const leadsThere = ({ wires = [] }) => wires.flat().some((id) => kept.has(id));
  for (const node of flow.filter(({ type }) => type === 'inject')) if (leadsThere(node)) keep(node.id);
  return kept;
}

function wiresIn(kept, { wires }) {
  return wires.map((targets) => targets.filter((target) => kept.has(target)));
}

/** Returns the nodes to import for a runtime. They have new ids, because the example may be in the editor as well. */
function nodesFor({ id, name }, flow) {
  const kept = partOf(flow);
  const page = { name: name || id, path: `/pipeline-${id}` };
  const tab = { id: RED.nodes.id(), type: 'tab', label: text('nodesTab', page) };
  const nodes = [];
  const ids = new Map();
  for (const { g: _group, ...node } of kept.values()) {
    const present = SHARED.includes(node.type) ? presentOf(node.type) : undefined;
    ids.set(node.id, present ?? RED.nodes.id());
    if (present) continue;
    const special = { 'modelet-metrics': { runtime: id }, 'ui-page': page }[node.type];
    nodes.push({ ...node, ...special, ...(node.z ? { z: tab.id, wires: wiresIn(kept, node) } : {}) });
  }
  let all = JSON.stringify([tab, ...nodes]);
  for (const [old, other] of ids) all = all.replaceAll(`"${old}"`, `"${other}"`);
  return JSON.parse(all);
}

/** Imports the nodes for a runtime. They run after the next deploy. */
function add(runtime) {
  $.getJSON(EXAMPLE)
    .done((flow) => RED.view.importNodes(nodesFor(runtime, flow)))
    .fail((xhr) => RED.notify(text('nodesFailed', { status: xhr.status }), 'error'));
}

window.modelet ??= {};
window.modelet.dashboardNodes = { add, areInstalled };
