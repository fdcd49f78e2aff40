/** Assigns a runtime to a stage that is dropped on the canvas, or to all stages whose runtime has been deleted. */
import { findRuntime } from './form.js';

const RUNTIME = 'modelet-runtime';
const STAGE = 'modelet-stage';

function findEvent(event, nodeId) {
  if (!event) return null;
  if (event.t === 'add' && event.nodes?.includes(nodeId)) return event;
  return (event.events || []).reduce((found, part) => found || findEvent(part, nodeId), null);
}

/** As the dialog of a config node does it, with all defaults: it would leave the falsy ones out. */
function addRuntime() {
  const definition = RED.nodes.getType(RUNTIME);
  const runtime = { id: RED.nodes.id(), _def: definition, type: RUNTIME, users: [], label: definition.label };
  for (const [property, { value }] of Object.entries(definition.defaults)) {
    runtime[property] = JSON.parse(JSON.stringify(value));
  }
  runtime.name = 'default';
  runtime.changed = true;
  runtime._ = definition._;
  RED.nodes.add(runtime);
  RED.editor.validateNode(RED.nodes.node(runtime.id));
  return runtime.id;
}

/** Returns the id of the runtime for a stage, and the events that made it, if there was none. */
export function runtimeFor(stage) {
  const found = findRuntime(stage);
  if (found) return { id: found, events: [] };
  const id = addRuntime();
  return { id, events: [{ t: 'add', nodes: [id] }] };
}

/** Gives a new stage its runtime, and makes a runtime if there is no runtime. */
export function giveRuntime(stageId) {
  const stage = RED.nodes.node(stageId);
  if (!RED.nodes.getType(RUNTIME) || !stage || stage.runtime) return;
  const { id, events } = runtimeFor(stage);
  stage.runtime = id;
  RED.nodes.updateConfigNodeUsers(stage);
  RED.editor.validateNode(stage);
  RED.events.emit('nodes:change', stage);
  RED.nodes.dirty(true);
  RED.view.redraw();
  if (events.length === 0) return;
  // One undo takes both back. The runtime comes first, so that a redo has it before the stage that refers to it.
  const event = findEvent(RED.history.peek(), stageId);
  if (event) event.nodes.unshift(stage.runtime);
  else RED.history.push({ t: 'add', nodes: [stage.runtime], dirty: true });
}

/** Gives one runtime to every stage whose runtime does not exist; returns the number of these stages. One undo takes it back. */
export function giveRuntimeToAll() {
  const stages = RED.nodes.filterNodes({ type: STAGE }).filter(({ runtime }) => !RED.nodes.node(runtime));
  const [first] = stages;
  if (!first) return 0;
  const dirty = RED.nodes.dirty();
  const { id: runtime, events } = runtimeFor(first);
  for (const stage of stages) {
    events.push({ t: 'edit', node: stage, changed: stage.changed, changes: { runtime: stage.runtime }, dirty });
    Object.assign(stage, { runtime, changed: true, dirty: true });
    RED.nodes.updateConfigNodeUsers(stage);
    RED.editor.validateNode(stage);
    RED.events.emit('nodes:change', stage);
  }
  RED.history.push({ t: 'multi', events, dirty });
  RED.nodes.dirty(true);
  RED.view.redraw();
  return stages.length;
}
