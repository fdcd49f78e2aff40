/** The tables of the dashboard: workers, gates, errors by stage and code, and what happened. */

import { clock, text } from './dashboard-words.js';
import { bytes, count, percent } from './figures.js';
import { list, said, setKind, setText, setTitle } from './sidebar-dom.js';

function make(tag, className = '') {
  const element = document.createElement(tag);
  if (className) element.className = className;
  return element;
}

/** A dot in the colour of a stage, and its name. `colour` may be undefined: without a stage. */
function stageName() {
  const dot = make('span', 'dot');
  const name = make('span');
  const element = make('span', 'stage');
  element.append(dot, name);
  const update = (shown, colour) => {
    setText(name, shown);
    dot.style.backgroundColor = colour === undefined ? 'var(--quiet)' : `var(--c${(colour + 8) % 8})`;
  };
  return { element, update };
}

/** A table with these columns; returns the function that shows rows of texts, the first of which is a stage's name. */
function table(element, keys) {
  const head = make('tr');
  for (const key of keys) {
    const cell = make('th');
    cell.scope = 'col';
    cell.textContent = text(key);
    head.append(cell);
  }
  const thead = make('thead');
  thead.append(head);
  const body = make('tbody');
  element.append(thead, body);
  return list(
    body,
    ({ key }) => key,
    () => {
      const row = make('tr');
      const name = stageName();
      const first = make('th');
      first.scope = 'row';
      first.append(name.element);
      const cells = keys.slice(1).map(() => make('td'));
      row.append(first, ...cells);
      const update = ({ stage, colour, kind, texts, title = '' }) => {
        name.update(stage, colour);
        setKind(row, kind ?? '');
        setTitle(row, title);
        cells.forEach((cell, index) => {
          setText(cell, texts[index]);
        });
      };
      return { element: row, update };
    },
  );
}

function stateOf({ state, busy, error }) {
  if (state === 'ready') return text(busy ? 'state.busy' : 'state.ready');
  return error === null ? text(`state.${state}`) : said(error.split('\n', 1)[0]);
}

function workerRow({ name, colour }, whole, worker) {
  const { index, pid, state, cpus, rssBytes, restarts, error } = worker;
  const cores = cpus === null ? text('workers.anyCore') : cpus.join(', ');
  return {
    key: `${name} ${index}`,
    stage: name,
    colour,
    kind: state,
    title: [whole, error].filter(Boolean).map(said).join('\n'),
    texts: [index, stateOf(worker), bytes(rssBytes), cores, restarts, pid ?? '\u2013'],
  };
}

export function makeWorkers(element) {
  const keys = ['index', 'state', 'memory', 'cores', 'restarts', 'pid'].map((key) => `workers.${key}`);
  const show = table(element, ['stage', ...keys]);
  return ({ stages, now }) => {
    const known = new Map(stages.map((stage) => [stage.id, stage]));
    const rows = ({ id, whole, workers }) => workers.map((worker) => workerRow(known.get(id), whole, worker));
    show(now.stages.flatMap(rows));
  };
}

export function makeGates(element) {
  const show = table(element, [
    'gates.name',
    ...['state', 'budget', 'quota', 'inFlight', 'waiting', 'why'].map((key) => `gates.${key}`),
  ]);
  return ({ now }) => {
    show(
      now.gates.map(({ id, name, open, why, budget, quota, inFlight, waiting }, index) => ({
        key: id,
        stage: name,
        colour: 7 - index,
        texts: [
          text(open ? 'gates.open' : 'gates.closed'),
          percent(budget),
          count(quota),
          count(inFlight),
          count(waiting),
          said(why),
        ],
      })),
    );
  };
}

/** Adds up the failed requests of all points by stage and code, the most frequent first; without stages that are gone. */
export function errorsOf({ points, stages }) {
  const sums = new Map();
  const names = new Set([null, ...stages.map(({ name }) => name)]);
  for (const { time, failed } of points) {
    for (const { stage, code, count: more, message } of failed) {
      if (!names.has(stage)) continue;
      const key = `${stage ?? ''}\n${code}`;
      const known = sums.get(key);
      sums.set(key, {
        key,
        stage,
        code,
        count: (known?.count ?? 0) + more,
        time,
        message: message ?? known?.message ?? '',
      });
    }
  }
  return [...sums.values()].sort((a, b) => b.count - a.count);
}

export function makeErrors(element) {
  const show = table(element, ['stage', ...['code', 'count', 'last', 'message'].map((key) => `errors.${key}`)]);
  return (state) => {
    const known = new Map(state.stages.map(({ name, colour }) => [name, colour]));
    show(
      errorsOf(state).map(({ key, stage, code, count: times, time, message }) => ({
        key,
        stage: stage ?? text('errors.noStage'),
        colour: known.get(stage),
        texts: [code, count(times), clock(time), said(message)],
      })),
    );
  };
}

export function makeEvents(element) {
  const show = list(
    element,
    ({ key }) => key,
    () => {
      const item = make('li');
      const time = make('time');
      const what = make('span');
      item.append(time, what);
      const update = (mark) => {
        item.dataset.mark = mark.kind === 'deploy' ? 'deploy' : 'death';
        setText(time, clock(mark.time));
        const cause = mark.error === null ? '' : `: ${said(mark.error.split('\n', 1)[0])}`;
        const kind = mark.kind === 'death' && mark.count > 1 ? 'deaths' : mark.kind;
        setText(what, text(`event.${kind}`, mark) + cause);
      };
      return { element: item, update };
    },
  );
  return ({ marks }) => {
    show(marks.map((mark, index) => ({ ...mark, key: `${mark.time} ${mark.kind} ${mark.stage} ${index}` })).reverse());
  };
}
