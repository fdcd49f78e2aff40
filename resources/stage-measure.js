/**
 * Measures a stage in its dialog, with the settings and the input of its test: what runs cost by the size of their batches,
 * what that makes of a rate of requests, and settings that suit it. *Apply* writes them into the dialog, and into the batcher
 * before the stage when the dialog is saved.
 */
import { workersOf } from './cpu-picker.js';
import { batcherOf } from './new-pipeline/canvas.js';

const ADDRESS = 'modelets/stages/measure';
const FIELDS = ['rate', 'goal', 'size', 'workers'];
const COLUMNS = ['batch', 'runMs', 'itemMs', 'p50', 'p99'];
/** Below this part of the rate, requests wait longer and longer. */
const KEEPS_UP = 0.9;
/** Without a further key, what is typed has come to rest. */
const REST_MS = 300;
/** The drawing, in the px of its view box. */
const CHART = { width: 280, height: 110, left: 36, right: 10, top: 12, bottom: 18 };

const PANEL = `
  <details id="modelet-stage-measure" class="modelet-measure">
    <summary data-text="title"></summary>
    <div class="modelet-hint" data-text="tip"></div>
    <div class="modelet-measure-fields">
      ${FIELDS.map((name) => `<label for="modelet-stage-measure-${name}" data-text="${name}"></label><input type="text" inputmode="decimal" id="modelet-stage-measure-${name}">`).join('')}
    </div>
    <button type="button" id="modelet-stage-measure-run" class="red-ui-button"></button>
    <div id="modelet-stage-measure-state" role="status"></div>
    <div id="modelet-stage-measure-result" hidden>
      <div id="modelet-stage-measure-chart" aria-hidden="true"></div>
      <table>
        <caption id="modelet-stage-measure-caption"></caption>
        <thead><tr>${COLUMNS.map((name) => `<th scope="col" data-text="column.${name}"></th>`).join('')}</tr></thead>
        <tbody></tbody>
      </table>
      <p id="modelet-stage-measure-proposal" role="status"></p>
      <button type="button" id="modelet-stage-measure-apply" class="red-ui-button" data-text="apply"></button>
      <div class="modelet-hint" id="modelet-stage-measure-applied" role="status"></div>
    </div>
  </details>`;

/** A figure with two digits, or all those of a whole number. */
const figure = (value) => window.modelet.figures.figure(value);

const linesOf = (text) =>
  text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .filter(Boolean)
    .map(JSON.parse);

/** Returns a refusal with its JSON, which jQuery does not read where it expects lines. */
function refusalIn({ status, responseText = '' }) {
  try {
    return { status, responseJSON: JSON.parse(responseText) };
  } catch (_error) {
    return { status };
  }
}

/** The number of a field; null if it is blank. Throws if it is no number, or below the least. */
function numberIn(field, isWhole) {
  const text = field.val().trim();
  const value = Number(text);
  const isGood = text === '' || (value > 0 && value < 1e9 && (!isWhole || Number.isInteger(value)));
  field.toggleClass('input-error', !isGood).attr('aria-invalid', String(!isGood));
  if (!isGood) throw new Error('a field is not a number');
  return text === '' ? null : value;
}

/** All that a measurement says about a rate; `isBatched`: whether a batcher can hold what is proposed. */
function judge(stage, { rate: given, goal }, isBatched) {
  const { meanRuns, usualRate, sizingsFor, proposed, replaysOf } = window.modelet.sizing;
  const means = meanRuns(stage.runs);
  const largest = Math.max(...means.map(({ items }) => items));
  const rate = given ?? usualRate(stage, largest);
  const all = sizingsFor(stage, rate, largest);
  const batched = proposed(all, goal);
  const singles = all.filter(({ batching }) => batching.maxBatchSize === 1);
  const choice = isBatched ? batched : proposed(singles, goal);
  const replay = replaysOf(stage, rate);
  const rows = means.map(({ items, ms }) => {
    const isChosen = items === choice.batching.maxBatchSize;
    const batching = { policy: 'greedy', maxBatchSize: items, maxWaitMs: 0 };
    const { prediction } = isChosen ? choice : replay(choice.workers, batching);
    return { items, ms, isChosen, ...prediction };
  });
  return { rate, goal, choice, rows, others: isBatched ? all : singles, batched: isBatched ? null : batched };
}

function drawingOf(rows, title) {
  const { width, height, left, right, top, bottom } = CHART;
  const costs = rows.map(({ items, ms }) => ms / items);
  const most = Math.max(...costs);
  const floor = height - bottom;
  const xOf = (at) => left + ((width - left - right) * (at + 0.5)) / rows.length;
  const yOf = (cost) => floor - (cost / most) * (floor - top);
  const points = costs.map((cost, at) => `${xOf(at).toFixed(1)},${yOf(cost).toFixed(1)}`);
  const dots = rows.map(({ isChosen }, at) => {
    const [x, y] = points[at].split(',');
    return `<circle cx="${x}" cy="${y}" r="${isChosen ? 5 : 3}"${isChosen ? ' class="chosen"' : ''}/>`;
  });
  // All labels have room up to 8 sizes.
  const every = Math.ceil(rows.length / 8);
  const labels = rows.map(({ items }, at) =>
    at % every === 0 ? `<text x="${xOf(at).toFixed(1)}" y="${height - 4}" text-anchor="middle">${items}</text>` : '',
  );
  return `<div>${$('<i>').text(title).html()}</div>
    <svg viewBox="0 0 ${width} ${height}" focusable="false">
      <path class="axis" d="M${left} ${top}H${width - right}M${left} ${floor}H${width - right}"/>
      <text x="${left - 5}" y="${top + 4}" text-anchor="end">${figure(most)}</text>
      <text x="${left - 5}" y="${floor + 4}" text-anchor="end">0</text>
      <polyline points="${points.join(' ')}"/>${dots.join('')}${labels.join('')}
    </svg>`;
}

/** The settings of a proposal in the words of the dialogs. */
function describeSettings(say, { workers, batching }, isBatched) {
  const { maxBatchSize: size, policy, maxWaitMs } = batching;
  if (!isBatched) return say('set.workers', { workers });
  return say(policy === 'greedy' ? 'set.batches' : 'set.waits', { workers, size, policy, wait: figure(maxWaitMs) });
}

/** One sentence of what is proposed, and one of why. */
function describe(say, { rate, goal, choice, others, batched }) {
  const { p99Ms, busy, itemsPerSecond } = choice.prediction;
  const values = { rate: figure(rate), p99: figure(p99Ms), busy: Math.round(busy * 100) };
  const texts = [say('proposal', { ...values, settings: describeSettings(say, choice, batched === null) })];
  const best = (isMeant) =>
    others
      .filter(isMeant)
      .reduce((least, { prediction }) => Math.min(least, prediction.p99Ms), Number.POSITIVE_INFINITY);
  const [fewer, more] = [
    best(({ workers }) => workers < choice.workers),
    best(({ workers }) => workers > choice.workers),
  ];
  if (itemsPerSecond < KEEPS_UP * rate) texts.push(say('why.tooMuch', { most: figure(itemsPerSecond) }));
  else if (goal !== null && p99Ms > goal) texts.push(say('why.missed', { goal }));
  else if (fewer < Number.POSITIVE_INFINITY) texts.push(say('why.fewer', { p99: figure(fewer) }));
  else if (more < Number.POSITIVE_INFINITY) texts.push(say('why.more', { p99: figure(Math.min(more, p99Ms)) }));
  const isBetter = batched && batched.batching.maxBatchSize > 1 && batched.prediction.p99Ms < p99Ms;
  if (isBetter) {
    const p99 = figure(batched.prediction.p99Ms);
    texts.push(say('noBatcher', { settings: describeSettings(say, batched, true), p99 }));
  }
  return texts.join(' ');
}

/** The number of workers in the form that the field has: a range keeps its least number, if it can. */
function workersText(text, workers) {
  const { min, max } = workersOf(text) ?? { min: workers, max: workers };
  return min === max || min >= workers ? String(workers) : `${min}-${workers}`;
}

/** Changes a batcher as its own dialog would. Returns what an undo needs; null without a change. */
function change(batcher, values) {
  const differing = Object.keys(values).filter((name) => String(batcher[name]) !== values[name]);
  if (differing.length === 0) return null;
  const changes = Object.fromEntries(differing.map((name) => [name, batcher[name]]));
  const event = { t: 'edit', node: batcher, changes, changed: batcher.changed, dirty: RED.nodes.dirty() };
  Object.assign(batcher, values, { changed: true, dirty: true, resize: true });
  RED.editor.validateNode(batcher);
  RED.events.emit('nodes:change', batcher);
  return event;
}

/**
 * options: `node`, `form` (its open dialog), `test` (that of stage-test.js, whose input it takes). Call `stop` when the
 * dialog closes, and `save` when it is saved: it returns what `oneditsave` is to return.
 */
export function attach({ node, form, test }) {
  const say = (key, values) =>
    node._(`modelet-stage.measure.${key}`, { interpolation: { escapeValue: false }, ...values });
  const panel = $(PANEL).appendTo(test.panel);
  const part = (name) => panel.find(`#modelet-stage-measure-${name}`);
  panel.find('[data-text]').each((_, element) => void $(element).text(say($(element).attr('data-text'))));
  const batcher = batcherOf(node);
  for (const name of FIELDS) part(name).attr('placeholder', say(`placeholder.${name}`));
  const button = part('run');
  let request = null;
  let measured = null;
  let judged = null;
  let pending = null;
  let timer = null;

  const tell = (text, isBad = false) => part('state').text(text).toggleClass('modelet-bad', isBad);
  const setRunning = (running) => {
    request = running;
    button.text(say(running ? 'cancel' : 'run'));
  };

  const show = () => {
    if (!measured) return;
    let asked;
    try {
      asked = { rate: numberIn(part('rate')), goal: numberIn(part('goal')) };
    } catch (_error) {
      return;
    }
    judged = judge(measured, asked, batcher !== null);
    const { rows, choice, rate } = judged;
    part('caption').text(say('caption', { rate: figure(rate), workers: choice.workers }));
    part('chart').html(drawingOf(rows, say('chart')));
    const cells = ({ items, ms, p50Ms, p99Ms, itemsPerSecond }) => {
      const waits = itemsPerSecond < KEEPS_UP * rate ? [say('slow'), say('slow')] : [p50Ms, p99Ms].map(figure);
      return [items, figure(ms), figure(ms / items), ...waits];
    };
    const lines = rows.map((row) => {
      const [size, ...others] = cells(row).map((value, at) => $(at === 0 ? '<th scope="row">' : '<td>').text(value));
      return $('<tr>').toggleClass('chosen', row.isChosen).append(size, others);
    });
    panel.find('tbody').empty().append(lines);
    part('proposal').text(describe(say, judged));
    part('applied').text('');
    part('result').prop('hidden', false);
  };

  const answered = (text) => {
    const { ok, error, ...runs } = linesOf(`${text}\n`).at(-1) ?? {};
    tell(ok ? '' : say('failed', { reason: error?.message ?? '' }), !ok);
    if (!ok) return;
    measured = runs;
    show();
  };

  const stop = () => {
    clearTimeout(timer);
    request?.abort();
  };

  const run = () => {
    let sending;
    try {
      for (const name of ['rate', 'goal']) numberIn(part(name));
      const [size, workers] = ['size', 'workers'].map((name) => numberIn(part(name), true));
      const drawn = Number(batcher?.maxBatchSize);
      const maxBatchSize = size ?? (drawn > 1 ? Math.max(drawn, 32) : null);
      sending = test.sending({ maxBatchSize, maxWorkers: workers });
    } catch (error) {
      tell(error instanceof SyntaxError ? test.say('notJson', { reason: error.message }) : say('notNumber'), true);
      return;
    }
    tell(say('starting'));
    const onprogress = ({ target }) => {
      const { progress } = linesOf(target.responseText).at(-1) ?? {};
      if (progress) tell(say('progress', progress));
    };
    const sent = $.ajax({ url: ADDRESS, type: 'POST', dataType: 'text', xhrFields: { onprogress }, ...sending });
    setRunning(sent);
    sent
      .done(answered)
      .fail((failure, how) => {
        if (how === 'abort') tell(say('cancelled'));
        else tell(test.describeFailure(refusalIn(failure)), true);
      })
      .always(() => setRunning(null));
  };

  const apply = () => {
    const { choice } = judged;
    const { maxBatchSize, policy, maxWaitMs } = choice.batching;
    const workers = form.find('#node-input-workers');
    workers.val(workersText(workers.val(), choice.workers)).trigger('change');
    pending = batcher && { maxBatchSize: String(maxBatchSize), policy };
    if (pending && policy !== 'greedy') pending.maxWaitMs = String(maxWaitMs);
    const name = batcher && RED.utils.getNodeLabel(batcher);
    part('applied').text(say(batcher ? 'appliedBoth' : 'applied', { name, workers: workers.val() }));
  };

  const save = () => {
    const event = pending && change(batcher, pending);
    if (!event) return undefined;
    // One undo takes back both nodes. If the stage itself has not changed, Node-RED drops the event, and it comes alone.
    setTimeout(() => {
      if (RED.history.peek()?.events?.includes(event)) return;
      RED.history.push(event);
      RED.nodes.dirty(true);
      RED.view.redraw();
    });
    return { history: [event] };
  };

  button.prop('disabled', !RED.user.hasPermission('flows.write')).on('click', () => (request ? stop() : run()));
  // A replay of a stage with many workers takes a while.
  part('rate')
    .add(part('goal'))
    .on('input', () => {
      clearTimeout(timer);
      timer = setTimeout(show, REST_MS);
    });
  part('apply').on('click', apply);
  setRunning(null);
  return { stop, save };
}
