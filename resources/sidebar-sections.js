/** Draws the sections of the sidebar: runtimes with their pipelines, CPU cores, the slowest requests. */
import { bytes, count, duration, percent } from './figures.js';
import {
  el,
  icon,
  list,
  restartKey,
  said,
  setKind,
  setShown,
  setStyle,
  setText,
  setTitle,
  text,
  textButton,
} from './sidebar-dom.js';
import { makeStage } from './sidebar-stage.js';

/** The parts of a request's time, in order. */
const PARTS = ['gate', 'entrance', 'wait', 'batch', 'run', 'transport', 'unanswered'];

function makeChain(context) {
  const stages = el('div', 'stages');
  const way = el('div', 'way');
  const end = el('div', 'end');
  const versions = el('div', 'versions-of');
  const besides = el('div', 'besides', el('div', 'caption', text('version.title')), versions);
  const element = el('div', 'chain', way, stages, end, besides);
  let [now, shownAlone] = [0, null];
  const listIn = (parent) =>
    list(
      parent,
      ({ id }) => id,
      (stage) => {
        const { element: box, update } = makeStage(context, stage);
        return { element: box, update: (shown) => update(shown, now, shown.id === shownAlone) };
      },
    );
  const [show, showVersions] = [listIn(stages), listIn(versions)];
  const update = ({ chain, byId, at, alone }) => {
    [now, shownAlone] = [at, alone];
    const onWay = chain.stages.map((id) => byId.get(id)).filter((stage) => stage !== undefined);
    show(onWay);
    const taking = onWay.flatMap((stage) => stage.versions).map((version) => byId.get(version.stage));
    showVersions(taking.filter((stage) => stage !== undefined));
    setShown(besides, taking.length > 0);
    element.classList.toggle('modelet-sb-forked', chain.way !== null);
    setShown(way, chain.way !== null);
    setText(way, chain.way ?? '');
    setShown(end, !chain.isPart);
    setText(end, said(chain.why));
    setKind(end, chain.unfused ? 'unfused' : 'end');
  };
  return { element, update };
}

function makeFigure(key) {
  const value = el('b');
  const element = el('span', 'figure', value, el('small', '', text(`runtime.${key}`)));
  element.title = text(`runtime.${key}Tip`);
  return { element, set: (shown) => setText(value, shown) };
}

/** An HTTP-in node that leads to the runtime's stages, and whether it is compiled. */
function makeEndpoint(context, { id }) {
  const name = textButton('endpoint-name', '', () => context.reveal(id));
  name.title = text('endpoint.reveal');
  const how = el('span', 'endpoint-how');
  const element = el('div', 'endpoint', name, how);
  const update = ({ method, path, reason }) => {
    const isCompiled = reason === null;
    setText(name, `${method} ${path}`);
    setText(how, isCompiled ? text('endpoint.compiled') : `${text('endpoint.flow')} ${said(reason)}`);
    setTitle(how, isCompiled ? text('endpoint.compiledTip') : '');
    setKind(element, isCompiled ? 'compiled' : 'flow');
  };
  return { element, update };
}

export function makeRuntime(context) {
  const dot = el('span', 'dot');
  const name = el('span', 'name');
  const engine = el('span', 'engine');
  const dashboard = el('a', 'dashboard', icon('line-chart'), ` ${text('runtime.dashboard')}`);
  dashboard.target = '_blank';
  const head = el('div', 'runtime-head', dot, name, engine, dashboard);
  const keys = ['rate', 'errors', 'p50', 'p99', 'open'];
  const figures = Object.fromEntries(keys.map((key) => [key, makeFigure(key)]));
  const row = el('div', 'figures', ...keys.map((key) => figures[key].element));
  const error = el('div', 'error');
  const warnings = el('div', 'warnings');
  const showWarnings = list(
    warnings,
    (warning) => warning,
    (warning) => ({ element: el('div', 'warning', icon('warning'), ` ${said(warning)}`), update: () => undefined }),
  );
  const chains = el('div', 'chains');
  const showChains = list(
    chains,
    ({ chain }) => chain.stages.join(' '),
    () => makeChain(context),
  );
  const endpoints = el('div', 'endpoints');
  const showEndpoints = list(
    endpoints,
    ({ id }) => id,
    (endpoint) => makeEndpoint(context, endpoint),
  );
  const update = ({ runtime, at, alone }) => {
    setKind(dot, runtime.state);
    setTitle(dot, runtime.state);
    setText(name, runtime.name || text('runtime.unnamed'));
    dashboard.setAttribute('href', `modelets/dashboard?runtime=${encodeURIComponent(runtime.id)}`);
    const restarts = runtime.restarts > 0 ? text(`runtime.${restartKey(runtime)}`, { count: runtime.restarts }) : '';
    const listens = runtime.url === null ? '' : text('runtime.listens', { url: runtime.url });
    const known = { pid: runtime.pid, memory: bytes(runtime.rssBytes) };
    setText(engine, (runtime.pid === null ? said(runtime.state) : text('runtime.engine', known)) + listens + restarts);
    figures.rate.set(count(runtime.requestsPerSecond));
    figures.errors.set(count(runtime.errorsPerSecond));
    setKind(figures.errors.element, runtime.errorsPerSecond > 0 && runtime.hasFaults ? 'bad' : 'good');
    figures.p50.set(duration(runtime.p50));
    figures.p99.set(duration(runtime.p99));
    figures.open.set(count(runtime.backlog));
    setTitle(figures.open.element, text('runtime.openTip', { capacity: runtime.capacity }));
    setShown(error, runtime.error !== null && runtime.state !== 'ready');
    setText(error, said(runtime.error || ''));
    showWarnings(runtime.warnings);
    const byId = new Map(runtime.stages.map((stage) => [stage.id, stage]));
    showChains(runtime.chains.map((chain) => ({ chain, byId, at, alone })));
    showEndpoints(runtime.endpoints);
  };
  return { element: el('div', 'runtime', head, row, error, warnings, chains, endpoints), update };
}

function labelOf({ kind, stage, worker }) {
  if (kind === 'worker') return `${stage} ${worker}`;
  return text(`cpus.${kind}`);
}

function makeHolder() {
  const element = el('span', 'holder');
  const update = (holder) => {
    setKind(element, holder.kind);
    setText(element, labelOf(holder));
  };
  return { element, update };
}

function makeHolders(parent) {
  return list(parent, ({ kind, runtime, stage, worker }) => [kind, runtime, stage, worker].join('\n'), makeHolder);
}

function makeCore() {
  const number = el('span', 'core');
  const holders = el('span', 'holders');
  const shared = el('span', 'shared', icon('warning'));
  const element = el('div', 'core-row', number, holders, shared);
  const show = makeHolders(holders);
  const update = ({ core, holders: shown }) => {
    setText(number, core);
    setKind(element, shown.length > 1 ? 'shared' : 'own');
    setShown(shared, shown.length > 1);
    setTitle(shared, text('cpus.shared', { count: shown.length }));
    show(shown);
  };
  return { element, update };
}

/** A small machine shows all its cores, a large one those that something is kept to. */
export function makeCpus() {
  const rows = el('div', 'cores-map');
  const free = el('div', 'note');
  const anywhere = el('span', 'holders');
  const others = el('div', 'anywhere', el('span', 'note', text('cpus.anywhere')), anywhere);
  const showRows = list(rows, ({ core }) => core, makeCore);
  const showOthers = makeHolders(anywhere);
  const update = ({ cpus }) => {
    const pinned = cpus.cores.filter(({ holders }) => holders.length > 0);
    const shown = cpus.cores.length <= 8 ? cpus.cores : pinned;
    showRows(pinned.length > 0 ? shown : []);
    setShown(free, pinned.length === 0 || shown.length < cpus.cores.length);
    const left = cpus.cores.length - (pinned.length === 0 ? 0 : shown.length);
    const key = pinned.length === 0 ? 'cpus.noPins' : left === 1 ? 'cpus.freeCore' : 'cpus.free';
    setText(free, text(key, { count: left }));
    setShown(others, cpus.anywhere.length > 0);
    showOthers(cpus.anywhere);
  };
  return { element: el('div', 'cpus', rows, free, others), update };
}

function makeRequest() {
  const total = el('span', 'total');
  const parts = PARTS.map((part) => {
    const element = el('span', 'part');
    element.dataset.part = part;
    return element;
  });
  const bar = el('span', 'stack', ...parts);
  const code = el('span', 'code');
  const ago = el('span', 'ago');
  const element = el('div', 'request', total, el('span', 'track', bar), ago, code);
  const update = ({ request, longestMs }) => {
    setText(total, duration(request.totalMs));
    setStyle(bar, 'width', `${Math.max(1, (request.totalMs / longestMs) * 100).toFixed(1)}%`);
    PARTS.forEach((part, index) => {
      setStyle(parts[index], 'flexGrow', String(request[`${part}Ms`]));
      setShown(parts[index], request[`${part}Ms`] > 0);
    });
    setShown(code, request.code !== 'ok');
    setText(code, request.stage === null ? request.code : `${request.code} (${request.stage})`);
    setText(ago, text('slowest.ago', { time: duration(Math.round(request.agoMs / 1000) * 1000) }));
    const known = PARTS.filter((part) => request[`${part}Ms`] > 0);
    const lines = known.map((part) => `${text(`part.${part}`)}: ${duration(request[`${part}Ms`])}`);
    setTitle(element, [request.requestId, ...lines].join('\n'));
  };
  return { element, update };
}

/** Returns the part in which requests spent most of their time, and its share. */
function mostOf(requests) {
  const spent = PARTS.map((part) => requests.reduce((sum, request) => sum + request[`${part}Ms`], 0));
  const total = spent.reduce((sum, ms) => sum + ms, 0);
  const most = Math.max(...spent);
  return { part: PARTS[spent.indexOf(most)], share: total > 0 ? most / total : 0 };
}

/** Whether requests wait for Node-RED's event loop. */
function isBusy(loop) {
  return loop !== null && (loop.p99Ms > 50 || loop.utilization > 0.9);
}

export function makeSlowest() {
  const rows = el('div', 'requests');
  const legend = el('div', 'legend');
  const none = el('div', 'note', text('slowest.none'));
  const summary = el('div', 'summary');
  // Not by the id of the request: it may pass several pipelines, and clients may choose ids.
  const show = list(rows, ({ place }) => place, makeRequest);
  const showLegend = list(
    legend,
    (part) => part,
    (part) => {
      const swatch = el('span', 'swatch');
      swatch.dataset.part = part;
      return { element: el('span', 'entry', swatch, text(`part.${part}`)), update: () => undefined };
    },
  );
  const update = ({ slowest, loop }) => {
    const longestMs = slowest.length > 0 ? slowest[0].totalMs : 1;
    show(slowest.map((request, place) => ({ request, longestMs, place })));
    showLegend(PARTS.filter((part) => slowest.some((request) => request[`${part}Ms`] > 0)));
    setShown(none, slowest.length === 0);
    setShown(summary, slowest.length > 0);
    const { part, share } = mostOf(slowest);
    const most = text('slowest.most', { part: text(`part.${part}`), percent: percent(share) });
    const hint = part === 'transport' && isBusy(loop) ? 'transportLoop' : part;
    setText(summary, `${most} ${text(`hint.${hint}`)}`);
  };
  return { element: el('div', 'slowest', summary, legend, rows, none), update };
}

export function makeLoop() {
  const line = el('div', 'note');
  const update = ({ loop }) => {
    if (!loop) {
      setText(line, text('loop.none'));
      return;
    }
    const { p99Ms, maxMs, utilization } = loop;
    setText(line, text('loop.line', { busy: percent(utilization), p99: duration(p99Ms), max: duration(maxMs) }));
    setKind(line, isBusy(loop) ? 'bad' : 'good');
    setTitle(line, text('loop.tip'));
  };
  return { element: el('div', 'loop', line), update };
}
