/**
 * Reads the facts that the compiler of endpoints needs and the flows do not have from Node-RED: settings, hooks, handlers
 * of the HTTP server that come before an HTTP-in node. Such a handler may refuse a request, so the request must pass it.
 */
import type { NodeAPI } from 'node-red';
import { barredBySettings, type HttpSettings, httpRoot, rooted } from '../../config/http/http-settings.ts';
import { type Graph, type HttpInNode, nodesOf } from '../../flow/graph.ts';
import { type EndpointFacts, pathOf } from '../../flow/http/endpoints.ts';
import { type HookList, isOnlyWatched } from '../functions/blocking-watch.ts';

type EndpointPaths = Pick<EndpointFacts, 'root' | 'barred' | 'taken'>;

interface AdminSettings extends HttpSettings {
  readonly httpAdminRoot?: string | false;
}

/** An entry of an Express application. */
export interface Layer {
  readonly name: string;
  readonly regexp?: RegExp;
  handle: { readonly stack?: readonly Layer[] };
  readonly route?: {
    readonly path: unknown;
    readonly methods: Readonly<Record<string, boolean>>;
    readonly stack: readonly Layer[];
  };
}
interface App {
  readonly _router?: { readonly stack: readonly Layer[] };
}

/** Names of handlers that refuse nothing: those of Express itself, and the one of http-hold.ts. */
const HARMLESS: ReadonlySet<string> = new Set(['query', 'expressInit', 'modeletRequests', 'modeletPreflights']);

/** Paths to which the editor posts. Node-RED's API shows the routes of nodes only; it mounts its own in applications. */
const EDITORS = /^\/(?:auth|flow|flows|library|nodes|projects|settings|theme)(?:\/|$)/i;

/** Hooks of Node-RED that see messages. */
const HOOKS = ['onSend', 'preRoute', 'preDeliver', 'postDeliver', 'onReceive', 'postReceive', 'onComplete'];

export function httpFacts(RED: NodeAPI, graph: Graph): EndpointPaths {
  const root = httpRoot(RED.settings as AdminSettings);
  const taken = new Map<string, string>();
  for (const httpIn of nodesOf(graph, 'http in')) {
    const reason = whoTakes(RED, httpIn, root);
    if (reason !== null) taken.set(httpIn.id, reason);
  }
  return { root, barred: reasonOfSettings(RED), taken };
}

/** Returns a reason if anything but this package has a hook that sees messages, as a debugger does; else null. */
export function barredByHooks(RED: NodeAPI): string | null {
  const { hooks } = RED as unknown as { hooks: HookList };
  // During a deploy, the package itself has hooks, see handover.ts, and so it has while a function node blocks Node-RED.
  const isOwn = (name: string): boolean => hooks.has(`${name}.modelet`) || isOnlyWatched(hooks, name);
  const isHooked = HOOKS.some((name) => hooks.has(name) && !isOwn(name));
  return isHooked ? 'a message hook or a debugger looks at messages' : null;
}

function reasonOfSettings(RED: NodeAPI): string | null {
  const barred = barredBySettings(RED.settings as AdminSettings);
  if (barred !== null) return barred;
  if ((RED.log as unknown as { metric(): boolean }).metric())
    return 'Node-RED writes metrics of every message to its log';
  return barredByHooks(RED);
}

/** Returns the reason why another handler of the HTTP server may answer the requests first, or null. */
function whoTakes(RED: NodeAPI, { method, url }: HttpInNode, root: string): string | null {
  const path = pathOf({ url }, '/');
  const whole = pathOf({ url }, root);
  if (isEditors(RED, method, whole)) return `the editor's server answers ${whole} itself`;
  for (const layer of layersOf(RED.httpNode)) {
    if (layer.route?.path === url || layer.route?.path === path) break;
    if (mayRefuse(layer, method, path)) return 'another module handles requests in front of the HTTP-in node';
  }
  return null;
}

/** Whether the editor's server has a route for the path. Node-RED asks it before the HTTP-in nodes. */
export function isEditors(RED: NodeAPI, method: string, whole: string): boolean {
  const { httpAdminRoot } = RED.settings as AdminSettings;
  const admin = rooted(httpAdminRoot || '/');
  if (httpAdminRoot === false || !(admin === '/' || whole.startsWith(`${admin}/`))) return false;
  const path = admin === '/' ? whole : whole.slice(admin.length);
  return EDITORS.test(path) || layersOf(RED.httpAdmin).some((layer) => hasRoute(layer, method, path));
}

function mayRefuse({ name, regexp, route }: Layer, method: string, path: string): boolean {
  if (HARMLESS.has(name) || regexp?.test(path) !== true) return false;
  return !route || answers(route, method);
}

export function layersOf(app: unknown): readonly Layer[] {
  // `false` if the settings switch the application off.
  return ((app || {}) as App)._router?.stack ?? [];
}

/**
 * Moves the last layer of an application in front of the route by which Node-RED answers every preflight request. It has
 * that route, if `httpNodeCors` is set, before other modules are loaded.
 */
export function moveBeforePreflights(app: unknown): void {
  const stack = layersOf(app) as Layer[];
  const at = stack.findIndex(({ route }) => route?.path === '*' && route.methods['options'] === true);
  const last = stack.at(-1);
  if (at < 0 || !last) return;
  stack.pop();
  stack.splice(at, 0, last);
}

function hasRoute({ regexp, handle, route }: Layer, method: string, path: string): boolean {
  const match = regexp?.exec(path);
  if (!match) return false;
  if (route) return answers(route, method);
  const inner = path.slice(match[0].length).replace(/^\/?/, '/');
  return (handle.stack ?? []).some((layer) => hasRoute(layer, method, inner));
}

function answers({ methods }: NonNullable<Layer['route']>, method: string): boolean {
  return methods[method] === true || methods['_all'] === true;
}
