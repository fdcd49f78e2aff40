/** The editor's globals, and functions that run in its page with them: each is sent there as text. */

/** A node as it is saved. */
export interface ExportedNode {
  readonly id: string;
  readonly type: string;
  readonly wires?: readonly (readonly string[])[];
  readonly [property: string]: unknown;
}

/** The editor's own globals. The tests look at them; what they do, they do as a person would, except to show a tab. */
export interface EditorGlobals {
  readonly nodes?: {
    getType(type: string): object | null;
    eachNode(visit: (node: Record<string, unknown>) => void): void;
    eachConfig(visit: (node: Record<string, unknown>) => void): void;
    createCompleteNodeSet(): ExportedNode[];
    dirty(isDirty?: boolean): boolean;
    clear(): void;
    import(flows: unknown): void;
    version(revision: string | null): void;
  };
  readonly history: { clear(): void };
  readonly actions: { invoke(action: string): void };
  readonly comms: Record<'subscribe' | 'unsubscribe', (topic: string, listener: () => void) => void>;
  readonly workspaces: { active(): string; show(id: string): void };
  readonly view: { state(): number; redraw(all: boolean): void };
  readonly state: { readonly DEFAULT: number; readonly IMPORT_DRAGGING: number };
  readonly editor: { getEditStack(): EditedNode[] };
}

interface EditedNode {
  readonly type?: string;
  readonly _def?: { readonly category: string; readonly defaults: object };
}

declare const RED: EditorGlobals;
/** The editor's jQuery. */
declare const $: {
  (selector: string): Elements;
  readonly timers: readonly object[];
  readonly fx: { off: boolean };
};

interface Elements {
  readonly length: number;
  empty(): Elements;
  hide(): Elements;
  removeClass(name: string): Elements;
}

/**
 * Runs in the page. Resolves with whether the editor can be worked with; from then on, what it animates is there at once:
 * without a graphics card, painting the steps keeps a core busy.
 */
export function isLoaded(): boolean {
  if (!('RED' in globalThis && RED.nodes?.getType('modelet-stage') && RED.workspaces.active())) return false;
  $.fx.off = true;
  return $.timers.length === 0 && $('#red-ui-loading-progress:visible').length === 0;
}

/** Runs in the page. */
export function isSettled(count: number): boolean {
  const dialogs = RED.editor.getEditStack();
  if ((count >= 0 && dialogs.length !== count) || $.timers.length > 0) return false;
  const { _def: definition, type = '' } = dialogs.at(-1) ?? {};
  const isConfig = type.startsWith('modelet-') && definition?.category === 'config';
  const fields = Object.entries(isConfig ? definition.defaults : {});
  const areShown = fields.every(([id, { value }]) => Array.isArray(value) || $(`#node-config-input-${id}`).length);
  const isMoving = $('.red-ui-tray:not([style*="right: 0px"])').length > 0;
  return !isMoving && areShown && $('.red-ui-tray').length === (type ? 1 : 0);
}

/** Runs in the page. */
export function unloadFlows(): boolean {
  const open = $('.red-ui-tray, .ui-dialog:visible, .red-ui-search:visible, .red-ui-type-search:visible').length;
  if (open > 0 || RED.editor.getEditStack().length > 0 || RED.view.state() !== RED.state.DEFAULT) return false;
  RED.actions.invoke('core:show-info-tab');
  RED.actions.invoke('core:clear-debug-messages');
  RED.nodes?.clear();
  RED.history.clear();
  // An editor without a version does not ask its user about flows that another user deploys.
  RED.nodes?.version(null);
  RED.view.redraw(true);
  // A notification removes itself from the document when its time is over: it must still be there.
  $('.red-ui-notification').empty().hide().removeClass('red-ui-notification');
  return true;
}

/** Runs in the page. */
export async function loadFlows(): Promise<void> {
  const response = await fetch('flows', { headers: { 'Node-RED-API-Version': 'v2' } });
  const { rev, flows } = (await response.json()) as { rev: string; flows: { id: string; type: string }[] };
  RED.nodes?.version(rev);
  RED.nodes?.import(flows);
  RED.nodes?.dirty(false);
  RED.view.redraw(true);
  const first = flows.find(({ type }) => type === 'tab');
  if (first) RED.workspaces.show(first.id);
  // Node-RED sends the badges again to an editor that subscribes to them again.
  const listener = (): void => {};
  RED.comms.subscribe('status/#', listener);
  RED.comms.unsubscribe('status/#', listener);
}

interface Scroller {
  readonly scrollWidth: number;
  readonly clientWidth: number;
  readonly parentElement: Scroller | null;
  matches(selector: string): boolean;
}

/** Runs in the page. By how many pixels the form of a dialog, or an element around it, is wider than it shows. */
export function overflowOf(form: Scroller): number {
  let widest = 0;
  for (let at: Scroller | null = form; at; at = at.matches('.red-ui-tray-body') ? null : at.parentElement) {
    widest = Math.max(widest, at.scrollWidth - at.clientWidth);
  }
  return widest;
}
