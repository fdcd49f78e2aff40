/** Shows one deployed gate live: why it is open or closed, its numbers, and buttons to control it. */
import { count, duration } from './figures.js';
import { button, el, icon, list, said, setKind, setShown, setText, setTitle } from './sidebar-dom.js';

const FIGURES = ['budget', 'baseline', 'quota', 'maxSys'];
const FACTS = ['source', 'inFlight', 'waiting', 'store', 'refusal', 'lost', 'stage'];
const ORDERS = {
  open: 'unlock',
  close: 'lock',
  auto: 'magic',
  flush: 'fast-forward',
  drop: 'trash',
  redrive: 'repeat',
};

// Only texts of the catalog go through here: what users and their servers say must not be interpolated.
function text(key, values) {
  return RED._(`@modelet/node-red-pipeline/modelet-gate:modelet-gate.live.${key}`, values);
}

/** In the colours of the badge. */
function kindOf({ open, waiting, control, source }) {
  if (open) return waiting > 0 ? 'busy' : 'ready';
  return control === 'auto' && !source.available ? 'error' : 'partly';
}

/** The state in a sentence: why nothing gets through, or how much would. */
function describeMeter({ open, control, why, budget, room, waiting, source }) {
  const wait = waiting > 0 ? `, ${text('meter.wait', { count: count(waiting) })}` : '';
  if (!open) return `${said(why.split(';', 1)[0])}${wait}`;
  if (control === 'open' || room === null) return `${text('meter.all')}${wait}`;
  const free = text('meter.free', { percent: Math.round(budget * 100) });
  const age = source.ageMs === null ? '' : text('meter.age', { age: duration(Math.round(source.ageMs / 100) * 100) });
  return `${free}, ${text('meter.admits', { count: count(room) })}${wait}${age}`;
}

function describeSource({ description, raw, error, ageMs }) {
  const age = ageMs === null ? text('noSample') : text('sample', { age: duration(ageMs) });
  return [said(description), said(error || raw), age].filter(Boolean).join(' \u00b7 ');
}

function countedRequests(number) {
  return text(number === 1 ? 'request' : 'requests', { count: count(number) });
}

function describeInFlight({ inFlight, inFlightCost, unit }) {
  const requests = countedRequests(inFlight);
  return unit === 'requests' ? requests : `${requests}, ${count(inFlightCost)} ${unit}`;
}

function describeWaiting({ waiting, capacity, oldestMs }) {
  const of = text('ofCapacity', { waiting: count(waiting), capacity: count(capacity) });
  return oldestMs === null ? of : `${of}, ${text('oldest', { time: duration(oldestMs) })}`;
}

function describeRefusal({ lastRefusal }) {
  if (lastRefusal === null) return text('never');
  const { agoMs, retryAfterMs } = lastRefusal;
  const ago = text('ago', { time: duration(agoMs) });
  return retryAfterMs > 0 ? `${ago}, ${text('asked', { time: duration(retryAfterMs) })}` : ago;
}

function describeStore({ store }) {
  if (store === null) return '';
  const { running, delayed, dead, error } = store;
  const counts = text('stored', { running: count(running), delayed: count(delayed), dead: count(dead) });
  return error === null ? counts : `${said(error)} \u00b7 ${counts}`;
}

function factsOf(gate) {
  return {
    source: describeSource(gate.source),
    inFlight: describeInFlight(gate),
    waiting: describeWaiting(gate),
    store: describeStore(gate),
    refusal: describeRefusal(gate),
    lost: gate.lost > 0 ? countedRequests(gate.lost) : '',
    stage: gate.stage || '',
  };
}

function makeFigure(key) {
  const value = el('b');
  const element = el('span', 'figure', value, el('small', '', text(`figure.${key}`)));
  element.title = text(`figure.${key}Tip`);
  element.dataset.figure = key;
  return { element, set: (shown) => setText(value, count(shown)) };
}

function makeFact(key) {
  const value = el('span', 'value');
  const element = el('div', 'fact', el('span', 'caption', text(`fact.${key}`)), value);
  element.dataset.fact = key;
  const set = (shown) => {
    setText(value, shown);
    setShown(element, shown !== '');
  };
  return { element, set };
}

function makeDecision() {
  const number = el('b');
  const name = el('span');
  const element = el('span', 'decision', number, ' ', name);
  const update = ([decision, times]) => {
    element.dataset.decision = decision;
    setText(number, count(times));
    setText(name, text(`decision.${decision}`));
    setKind(element, times > 0 ? 'some' : 'none');
  };
  return { element, update };
}

function makeDeadLetter({ id }) {
  const reason = el('span');
  const element = el('div', 'dead', icon('times-circle'), ' ', reason);
  element.dataset.dead = id;
  const update = ({ attempts, reason: why }) => {
    setText(reason, `${id}: ${said(why.split('\n', 1)[0])}`);
    setTitle(element, `${text('attempts', { count: attempts })}\n${why}`);
  };
  return { element, update };
}

function makeWarning(warning) {
  const element = el('div', 'warning', icon('warning'), ` ${said(warning)}`);
  element.title = said(warning);
  return { element, update: () => undefined };
}

function makeOrders(context, id) {
  const buttons = Object.entries(ORDERS).map(([order, name]) => {
    const element = button('act', name, text(`order.${order}`), () => context.order(id, order));
    element.dataset.order = order;
    return element;
  });
  const update = ({ control, waiting, store }) => {
    for (const element of buttons) {
      const { order } = element.dataset;
      const isOfUse = order !== 'redrive' || (store !== null && store.dead > 0);
      setShown(element, context.mayAct() && isOfUse);
      element.disabled = (order === 'flush' || order === 'drop') && waiting === 0;
      element.setAttribute('aria-pressed', String(order === control));
    }
  };
  return { elements: buttons, update };
}

/** context: `order(id, order)`, `mayAct()` and, where a click on its head is to show the node, `reveal(id)`. */
export function makeGate(context, { id }) {
  const dot = el('span', 'dot');
  const name = el('span', 'name');
  const orders = makeOrders(context, id);
  const head = el('div', 'head', dot, name, ...orders.elements);
  if (context.reveal) {
    head.title = text('reveal');
    head.addEventListener('click', () => context.reveal(id));
  }
  const meter = el('div', 'meter');
  const why = el('div', 'why');
  const figures = Object.fromEntries(FIGURES.map((key) => [key, makeFigure(key)]));
  const row = el('div', 'figures', ...FIGURES.map((key) => figures[key].element));
  const facts = Object.fromEntries(FACTS.map((key) => [key, makeFact(key)]));
  const decisions = el('div', 'decisions');
  const showDecisions = list(decisions, ([decision]) => decision, makeDecision);
  const warnings = el('div', 'warnings');
  const showWarnings = list(warnings, (warning) => warning, makeWarning);
  const letters = el('div', 'dead-letters');
  const showLetters = list(letters, (letter) => letter.id, makeDeadLetter);
  const known = FACTS.map((key) => facts[key].element);
  const how = el('details', 'how', el('summary', '', text('how')), why, row, decisions);
  const element = el('div', 'gate', head, meter, ...known, letters, warnings, how);
  element.dataset.gate = id;
  const update = (gate) => {
    const kind = kindOf(gate);
    setKind(element, kind);
    setKind(dot, kind);
    setTitle(dot, text(gate.open ? 'open' : 'closed'));
    setText(name, gate.name);
    setText(meter, describeMeter(gate));
    setText(why, said(gate.why));
    for (const key of FIGURES) figures[key].set(gate[key]);
    const shown = factsOf(gate);
    for (const key of FACTS) facts[key].set(shown[key]);
    showLetters(gate.store === null ? [] : gate.store.deadLetters);
    showDecisions(Object.entries(gate.decisions));
    showWarnings(gate.warnings);
    orders.update(gate);
  };
  return { element, update };
}

/** Asks something of a gate. */
export function orderGate(id, order) {
  return $.ajax({ url: `modelets/gates/${encodeURIComponent(id)}/${order}`, method: 'POST' })
    .done(() => RED.notify(text(`ordered.${order}`), 'success'))
    .fail(({ status }) => RED.notify(text('orderFailed', { status }), 'error'));
}
