/**
 * The dashboard of a runtime: takes the events of its history, and draws them as charts and tables. Inserts all text as
 * text, never as HTML.
 */

import { makeChart } from './dashboard-charts.js';
import { listen } from './dashboard-events.js';
import { errorsOf, makeErrors, makeEvents, makeGates, makeWorkers } from './dashboard-tables.js';
import { loadTexts, text } from './dashboard-words.js';
import { count, duration, percent } from './figures.js';
import { list, said, setKind, setShown, setText } from './sidebar-dom.js';

/** Time that the page shows. */
const SPAN_MS = 600_000;
/** Number of colours for stages. Those beyond have a dashed line in the colour of another. */
const COLOURS = 8;
const DASHES = [undefined, [8, 4], [2, 3], [10, 3, 2, 3]];
/** Most lines of errors, the most frequent. All of them are in the table. */
const MOST_LINES = 8;

const byId = (id) => document.getElementById(id);

function lineOf(number) {
  return { colour: `c${number % COLOURS}`, dash: DASHES[Math.floor(number / COLOURS) % DASHES.length] };
}

/** A line for each stage. */
function perStage(figure) {
  return ({ stages }) =>
    stages.map(({ id, name, colour: number }) => ({
      name,
      ...lineOf(number),
      value: ({ stages: values }) => (values[id] ? figure(values[id]) : null),
    }));
}

/** A line for each stage and code, in the colour of the stage. */
function perError(state) {
  const colours = new Map(state.stages.map(({ name, colour: number }) => [name, lineOf(number).colour]));
  return errorsOf(state)
    .slice(0, MOST_LINES)
    .map(({ stage, code }, index, all) => ({
      name: `${stage ?? text('errors.noStage')} \u00b7 ${code}`,
      colour: colours.get(stage) ?? 'quiet',
      dash: DASHES[all.slice(0, index).filter((other) => other.stage === stage).length % DASHES.length],
      value: ({ failed }) => failed.find((other) => other.stage === stage && other.code === code)?.count ?? 0,
    }));
}

/** A line for each gate, in the colours that stages get last. */
function perGate({ now }) {
  return now.gates.map(({ id, name }, index) => ({
    name,
    ...lineOf(COLOURS - 1 - index),
    value: ({ gates }) => gates[id]?.budget ?? null,
  }));
}

const line = (name, colourName, value, more = {}) => ({ name, colour: colourName, value, ...more });

function makeCharts() {
  const requests = () => [
    line(text('line.requests'), 'line', (point) => point.requestsPerSecond, { fill: 'band50' }),
    line(text('line.errors'), 'bad', (point) => point.errorsPerSecond),
  ];
  const times = () => [
    line(text('tile.p50'), 'line', (point) => point.p50, { fill: 'band50' }),
    line(text('tile.p95'), 'line', (point) => point.p95, { dash: DASHES[1] }),
    line(text('tile.p99'), 'line', (point) => point.p99, { dash: DASHES[2] }),
  ];
  const bands = [
    { lines: [1, 0], fill: 'band95' },
    { lines: [2, 1], fill: 'band99' },
  ];
  const used = perStage(({ used }) => used);
  const queue = perStage(({ queue }) => queue);
  return [
    makeChart({ key: 'latency', format: duration, top: 1, lines: times, bands }),
    makeChart({ key: 'rate', format: count, top: 1, lines: requests }),
    makeChart({ key: 'used', format: percent, top: 1, isPart: true, lines: used }),
    makeChart({ key: 'queue', format: count, top: 4, isWhole: true, lines: queue }),
    makeChart({ key: 'errors', format: count, top: 4, isWhole: true, lines: perError }),
    makeChart({ key: 'gates', format: percent, top: 1, isPart: true, lines: perGate }),
  ];
}

function makeTiles(element) {
  const keys = ['rate', 'errors', 'p50', 'p95', 'p99', 'open'];
  const values = keys.map((key) => {
    const tile = document.createElement('div');
    const name = document.createElement('dt');
    const value = document.createElement('dd');
    name.textContent = text(`tile.${key}`);
    tile.dataset.tile = key;
    tile.append(name, value);
    element.append(tile);
    return value;
  });
  return ({ points, now }) => {
    const { requestsPerSecond, errorsPerSecond, p50, p95, p99 } = points.at(-1) ?? {};
    const times = [p50, p95, p99].map(duration);
    const shown = [count(requestsPerSecond), count(errorsPerSecond), ...times, count(now.backlog)];
    values.forEach((value, index) => {
      setText(value, shown[index]);
    });
    setKind(element.children[1], errorsPerSecond > 0 ? 'bad' : '');
  };
}

function makeFindings(element) {
  const show = list(
    element,
    ({ text: words }) => words,
    () => {
      const item = document.createElement('li');
      const update = ({ kind, text: words }) => {
        setKind(item, kind);
        setText(item, said(words));
      };
      return { element: item, update };
    },
  );
  return ({ now }) => show(now.findings);
}

function makeChoice(choose) {
  const select = byId('runtime');
  select.addEventListener('change', () => choose(select.value));
  let known = '';
  return ({ runtimes, runtime }) => {
    setShown(byId('choice'), runtimes.length > 1 || (runtimes.length === 1 && runtime === null));
    const names = JSON.stringify(runtimes);
    if (names !== known) {
      select.replaceChildren(...runtimes.map(({ id, name }) => new Option(name, id)));
      known = names;
    }
    select.value = runtime ?? '';
  };
}

/** Adds an event to what is known. */
function next(state, event) {
  const known = event.isWhole ? { points: [], marks: [] } : state;
  const points = [...known.points, ...event.points];
  const from = (points.at(-1)?.time ?? 0) - SPAN_MS;
  const ids = new Set(event.stages.map(({ id }) => id));
  // A stage that is gone and comes back begins anew.
  for (const { stages } of points) for (const id of Object.keys(stages)) if (!ids.has(id)) delete stages[id];
  return {
    ...event,
    points: points.filter(({ time }) => time >= from),
    marks: [...known.marks, ...event.marks].filter(({ time }) => time >= from),
  };
}

/** As the editor of Node-RED 5 chose it, else as the system has it. */
function followTheme(redraw) {
  const system = matchMedia('(prefers-color-scheme: dark)');
  const apply = () => {
    const chosen = localStorage.getItem('view-dark-theme');
    const isDark = chosen === 'dark' || (chosen !== 'light' && system.matches);
    document.documentElement.dataset.theme = isDark ? 'dark' : 'light';
    redraw();
  };
  system.addEventListener('change', apply);
  window.addEventListener('storage', ({ key }) => key === 'view-dark-theme' && apply());
  apply();
}

function start() {
  const address = new URL(location.href);
  const charts = makeCharts();
  byId('charts').append(...charts.map(({ element }) => element));
  const gateChart = charts.at(-1).element;
  const showChoice = makeChoice((id) => {
    address.searchParams.set('runtime', id);
    history.replaceState(null, '', address);
    void connect();
  });
  const parts = [
    makeFindings(byId('findings')),
    makeTiles(byId('tiles')),
    makeWorkers(byId('workers')),
    makeGates(byId('gates')),
    makeErrors(byId('errors')),
    makeEvents(byId('events')),
    ...charts.map(({ update }) => update),
  ];
  let state = { points: [], marks: [], now: null };

  function say(key) {
    setText(byId('message'), key ? text(key) : '');
    setShown(byId('message'), key !== null);
    setShown(byId('body'), key === null);
  }

  function draw() {
    if (state.now === null) return;
    setShown(gateChart, state.now.gates.length > 0);
    setShown(byId('gates-section'), state.now.gates.length > 0);
    for (const update of parts) update(state);
  }

  function take(event) {
    state = next(state, event);
    const { runtimes, runtime } = event;
    showChoice(event);
    const name = runtimes.find(({ id }) => id === runtime)?.name;
    document.title = name ? `${name} \u00b7 ${text('title')}` : text('title');
    setText(document.querySelector('h1'), name ?? text('title'));
    say(runtime !== null ? null : runtimes.length === 0 ? 'none' : 'missing');
    draw();
  }

  function showState(connection) {
    setText(byId('connection'), text(`connection.${connection}`));
    setKind(byId('connection'), connection);
    if (connection === 'login' || connection === 'forbidden') say(connection);
  }

  say('connecting');
  const events = () => `dashboard/events?runtime=${encodeURIComponent(address.searchParams.get('runtime') ?? '')}`;
  const connect = listen(events, { event: take, state: showState });
  followTheme(draw);
}

void loadTexts().then(start);
