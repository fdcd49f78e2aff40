/**
 * Decides what the sidebar shows, and in which order: only what is selected in the editor, if something of the pipelines
 * is, and what fails or takes the most time first.
 */
import { neighbours } from './new-pipeline/canvas.js';
import { el, setShown, setText, smallButton, text } from './sidebar-dom.js';

/** A stage is the slowest only if so many views in a row say so: else places would change again and again. */
const STEADY_VIEWS = 5;
/** Order of what is to be seen first. Stages that serve have the last rank. */
const RANKS = ['error', 'startup', 'partly'];

/** Returns the nodes of an id on the canvas: of one inside a subflow also the instance, and the node in the subflow. */
export function nodesOf(id) {
  const ids = new Set([id, id.split('-')[0], id.split('-').at(-1)]);
  return [...ids].flatMap((one) => RED.nodes.node(one) ?? []);
}

/** Returns the nearest known nodes behind a node, else those before it. */
function nearestKnown(node, known) {
  for (const side of ['target', 'source']) {
    const seen = new Set([node.id]);
    let step = [node];
    while (step.length > 0) {
      const next = step.flatMap((one) => neighbours(one, side));
      const found = next.filter(({ id }) => known.has(id));
      if (found.length > 0) return found;
      step = next.filter(({ id }) => !seen.has(id));
      for (const { id } of step) seen.add(id);
    }
  }
  return [];
}

function ofPipelines({ type }) {
  return type.startsWith('modelet-') || type.startsWith('http ');
}

/** Follows the selection in the editor. `onChange` is called when something else is selected. */
export class Selection {
  constructor(onChange) {
    this.onChange = onChange;
    /** Nodes that are selected, those in groups included. */
    this.nodes = [];
    /** Tabs that are selected, else the tab to which the user has turned; empty: none. */
    this.tabs = [];
    this.isOwn = false;
    RED.events.on('view:selection-changed', (selection) => this.selected(selection));
    RED.events.on('workspace:change', ({ old, workspace }) => old && this.turned(workspace));
  }

  /** A selection that the sidebar itself makes must not hide the part that its user looks at. */
  without(select) {
    this.isOwn = true;
    select();
    // The editor tells of a new tab a little later.
    setTimeout(() => {
      this.isOwn = false;
    }, 0);
  }

  selected({ nodes = [], flows = [] }) {
    if (this.isOwn) return;
    this.nodes = nodes.flatMap((node) => (node.type === 'group' ? RED.group.getNodes(node, true, true) : node));
    if (flows.length > 0) this.tabs = flows.map(({ id }) => id);
    this.onChange();
  }

  turned(workspace) {
    if (this.isOwn) return;
    this.tabs = workspace ? [workspace] : [];
    this.nodes = [];
    this.onChange();
  }

  clear() {
    this.tabs = [];
    this.nodes = [];
    this.onChange();
  }

  /** Returns the ids, among those of stages and gates, that are selected; null: all. */
  among({ stages, gates, endpoints }) {
    const ids = [...stages, ...gates].map(({ id }) => id);
    const byNode = this.nodes.length > 0 ? this.ofNodes(ids, endpoints) : new Set();
    const found = byNode.size > 0 ? byNode : new Set(ids.filter((id) => this.isOnTabs(id)));
    return found.size > 0 && found.size < ids.length ? found : null;
  }

  isOnTabs(id) {
    return nodesOf(id).some(({ z }) => this.tabs.includes(z));
  }

  ofNodes(ids, endpoints) {
    const stagesOf = new Map(endpoints.map(({ id, stages }) => [id, stages]));
    const known = new Map(ids.flatMap((id) => nodesOf(id).map((node) => [node.id, id])));
    const shown = this.nodes.filter(ofPipelines).flatMap((node) => {
      if (stagesOf.has(node.id)) return stagesOf.get(node.id);
      if (known.has(node.id)) return ids.filter((id) => nodesOf(id).includes(node));
      return nearestKnown(node, known).map(({ id }) => known.get(id));
    });
    return new Set(shown);
  }
}

/** Says what is shown, and leads back to all. */
export function makeFilterBar(selection) {
  const words = el('span', 'filter-text');
  const all = smallButton('filter-all', text('filter.all'), () => selection.clear());
  const element = el('div', 'filter', words, all);
  element.setAttribute('role', 'status');
  const update = (counts) => {
    setShown(element, counts !== null);
    if (counts) setText(words, text('filter.shown', counts));
  };
  return { element, update };
}

function ofRuntime(runtime, chosen) {
  const byId = new Map(runtime.stages.map((stage) => [stage.id, stage]));
  const isShown = (id) => chosen.has(id) || byId.get(id)?.versions.some(({ stage }) => chosen.has(stage));
  const chains = runtime.chains.flatMap((chain) => {
    const stages = chain.stages.filter(isShown);
    const isWhole = stages.length === chain.stages.length;
    return stages.length > 0 ? { ...chain, stages, way: isWhole ? chain.way : null, isPart: !isWhole } : [];
  });
  const endpoints = runtime.endpoints.filter(({ stages }) => stages.some(isShown));
  return { ...runtime, chains, endpoints };
}

/** Returns a view with only the chosen stages and gates. Its verdict stays that of all. */
export function only(view, chosen) {
  if (!chosen) return view;
  const runtimes = view.runtimes.map((runtime) => ofRuntime(runtime, chosen));
  return {
    ...view,
    runtimes: runtimes.filter(({ chains }) => chains.length > 0),
    gates: view.gates.filter(({ id }) => chosen.has(id)),
  };
}

/** Puts what fails first, and behind it what takes the most time. The stages of a chain keep their order. */
export class Order {
  constructor() {
    this.slowest = null;
    this.next = null;
    this.views = 0;
  }

  of(view) {
    this.note(view.slowestStage);
    const placed = view.runtimes.map((runtime) => {
      const byId = new Map(runtime.stages.map((stage) => [stage.id, stage]));
      const placeOf = ({ stages }) => this.placeOf(stages.flatMap((id) => byId.get(id) ?? []));
      const chains = runtime.chains.toSorted((a, b) => placeOf(a) - placeOf(b));
      return { place: this.placeOf(runtime.stages), runtime: { ...runtime, chains } };
    });
    return { ...view, runtimes: placed.toSorted((a, b) => a.place - b.place).map(({ runtime }) => runtime) };
  }

  note(slowest) {
    this.views = slowest === this.next ? this.views + 1 : 1;
    this.next = slowest;
    if (this.slowest === null || this.views >= STEADY_VIEWS) this.slowest = slowest;
  }

  placeOf(stages) {
    const ranks = stages.map(({ health }) => RANKS.indexOf(health)).filter((rank) => rank >= 0);
    if (ranks.length > 0) return Math.min(...ranks);
    return stages.some(({ id }) => id === this.slowest) ? RANKS.length : RANKS.length + 1;
  }
}
