/** Draws one stage in the sidebar: its state, queue, batches and workers. */
import { bytes, count, duration } from './figures.js';
import {
  button,
  curve,
  el,
  icon,
  list,
  restartKey,
  SPAN_MS,
  said,
  setKind,
  setShown,
  setStyle,
  setText,
  setTitle,
  text,
  textButton,
} from './sidebar-dom.js';

function kindOfWorker({ state, busy }) {
  if (state === 'ready') return busy ? 'busy' : 'ready';
  return state === 'startup' ? 'startup' : 'error';
}

function describeCores(cpus, isAll) {
  if (cpus === null || isAll(cpus)) return text('worker.anyCore');
  const shown = cpus.length > 4 ? `${cpus.slice(0, 3).join(', ')} \u2026` : cpus.join(', ');
  return text(cpus.length === 1 ? 'worker.core' : 'worker.cores', { cores: shown });
}

function makeWorker(context) {
  const dot = el('span', 'dot');
  const number = el('span', 'number');
  const pid = el('span', 'pid');
  const cores = el('span', 'cores');
  const memory = el('span', 'memory');
  const restarts = el('span', 'restarts', icon('repeat'), ' ');
  const times = el('span');
  restarts.append(times);
  const error = el('div', 'error');
  const element = el('div', 'worker', dot, number, pid, cores, memory, restarts, error);
  const update = (worker) => {
    setKind(dot, kindOfWorker(worker));
    setTitle(dot, worker.state === 'ready' && worker.busy ? text('worker.busy') : worker.state);
    setText(number, worker.index);
    setText(pid, worker.pid === null ? text('worker.noPid') : text('worker.pid', { pid: worker.pid }));
    setText(cores, describeCores(worker.cpus, context.isAllCores));
    setTitle(cores, worker.cpus === null ? '' : worker.cpus.join(', '));
    setText(memory, worker.rssBytes === null ? '' : bytes(worker.rssBytes));
    setShown(restarts, worker.restarts > 0);
    setText(times, worker.restarts);
    setTitle(restarts, text(`worker.${restartKey(worker)}`, { count: worker.restarts }));
    setShown(error, worker.error !== null);
    setText(error, said((worker.error || '').split('\n', 1)[0]));
    setTitle(error, worker.error || '');
  };
  return { element, update };
}

function makeWorkers(context) {
  const summary = el('summary');
  const rows = el('div', 'rows');
  const element = el('details', 'workers', summary, rows);
  const show = list(
    rows,
    ({ index }) => index,
    () => makeWorker(context),
  );
  let wasOfNote = false;
  const update = ({ health, words, workers }, isAlone) => {
    // Unfolds when a worker fails or the stage is shown alone, and leaves the rest to who looks.
    const isOfNote = isAlone || workers.some(({ error }) => error !== null);
    if (isOfNote && !wasOfNote) element.open = true;
    wasOfNote = isOfNote;
    // The error is already above.
    setText(summary, health === 'error' ? text('stage.workers') : said(words));
    show(workers);
  };
  return { element, update };
}

function makeQueue() {
  const fill = el('span', 'fill');
  const label = el('span', 'label');
  const bar = el('span', 'bar', fill);
  const element = el('div', 'queue', el('span', 'caption', text('stage.queue')), bar, label);
  const update = ({ queue, capacity }) => {
    const part = Math.min(1, queue / Math.max(1, capacity));
    setStyle(fill, 'width', `${queue > 0 ? Math.max(2, part * 100).toFixed(1) : 0}%`);
    setKind(fill, part >= 1 ? 'full' : part >= 0.5 ? 'high' : 'low');
    setText(label, text('stage.ofCapacity', { queue: count(queue), capacity: count(capacity) }));
  };
  return { element, update };
}

/** How full batches were; of a stage that takes single items, how many came. */
function makeBatches(history) {
  const { element: svg, draw } = curve();
  const caption = el('span', 'caption');
  const label = el('span', 'label');
  const element = el('div', 'batches', caption, svg, label);
  const update = (stage, now) => {
    const isSingle = stage.maxBatchSize === 1;
    const points = history(stage.id);
    const most = Math.max(1e-9, ...points.map(({ rate }) => rate || 0));
    draw(
      points.map(({ at, fill, rate }) => ({ at, part: isSingle ? (rate === null ? null : rate / most) : fill })),
      now,
    );
    const [shown, most60] = isSingle
      ? [count(stage.itemsPerSecond), count(Math.max(0, ...points.map(({ rate }) => rate || 0)))]
      : [count(stage.meanBatch), count(Math.max(0, ...points.map(({ fill }) => (fill || 0) * stage.maxBatchSize)))];
    // A name of a user is not interpolated, because i18next would escape it.
    const words = text(isSingle ? 'stage.rateCurve' : 'stage.batchCurve', { now: shown, most: most60 });
    svg.setAttribute('aria-label', `${stage.name}: ${words}`);
    setText(caption, text(isSingle ? 'stage.rate' : 'stage.batch'));
    setTitle(element, text(isSingle ? 'stage.rateTip' : 'stage.batchTip', { policy: stage.policy }));
    const size = { size: count(stage.meanBatch), most: stage.maxBatchSize, runs: count(stage.runsPerBatch) };
    // Within rounding, the model runs once for a batch.
    const inRuns = stage.runsPerBatch > 1.05 ? 'stage.batchInRuns' : 'stage.batchOf';
    setText(
      label,
      isSingle
        ? text('stage.most', { count: count(Math.max(0, ...points.map(({ rate }) => rate || 0))) })
        : text(inRuns, size),
    );
  };
  return { element, update };
}

/** A version of the stage: what it gets at present, and the buttons that change that. */
function makeVersion(context, { stage: id }) {
  const dot = el('span', 'dot');
  const name = textButton('version-name', '', () => context.reveal(id));
  name.title = text('stage.reveal');
  const share = el('span', 'version-share');
  const drawn = el('span', 'version-drawn');
  const failed = el('span', 'version-failed');
  const act = (action, iconName) => button('act', iconName, text(`act.${action}`), () => context.act(id, action));
  const [promote, rollback, restore] = [
    act('promote', 'arrow-up'),
    act('rollback', 'arrow-down'),
    act('restore', 'undo'),
  ];
  const element = el('div', 'version', dot, name, share, failed, drawn, promote, rollback, restore);
  const update = (version) => {
    const { mode, cause, available } = version;
    const isDrawn = cause === 'drawn';
    setKind(dot, available ? 'ready' : 'error');
    setTitle(dot, text(available ? 'version.available' : 'version.unavailable'));
    setText(name, version.name);
    setText(share, text(`version.${mode}`, { share: count(version.share) }));
    setText(failed, version.failed > 0 ? text('version.failed', { percent: count(version.failed) }) : '');
    setKind(drawn, cause);
    const given = text(`version.${version.drawn.mode}`, { share: count(version.drawn.share) });
    setText(drawn, isDrawn ? '' : `${text(`version.${cause}`)} ${text('version.drawn')} ${given}`);
    const mayAct = context.mayAct();
    setShown(promote, mayAct && !(mode === 'answer' && version.share === 100));
    setShown(rollback, mayAct && version.share > 0);
    setShown(restore, mayAct && !isDrawn);
  };
  return { element, update };
}

function makeVersions(context) {
  const rows = el('div', 'rows');
  const element = el('div', 'versions', el('span', 'caption', text('version.title')), rows);
  const show = list(
    rows,
    ({ stage }) => stage,
    (version) => makeVersion(context, version),
  );
  const update = ({ versions }) => {
    setShown(element, versions.length > 0);
    show(versions);
  };
  return { element, update };
}

/**
 * context: `reveal(id)`, `act(id, action)`, `mayAct()`, `isAllCores(cpus)`, `history(id)`. The element's `update`
 * takes the stage and the time that is now.
 */
export function makeStage(context, { id }) {
  const dot = el('span', 'dot');
  const name = el('button', 'name');
  name.type = 'button';
  const rate = el('span', 'rate');
  const flush = button('act', 'fast-forward', text('act.flush'), () => context.act(id, 'flush'));
  const restart = button('act', 'refresh', text('act.restart'), () => context.act(id, 'restart'));
  const head = el('div', 'head', dot, name, rate, flush, restart);
  head.title = text('stage.reveal');
  head.addEventListener('click', () => context.reveal(id));
  const times = el('div', 'times');
  times.title = text('stage.timesTip');
  const why = el('div', 'why', icon('info-circle'), ' ');
  const sentence = el('span');
  why.append(sentence);
  const choice = el('div', 'choice');
  const warnings = el('div', 'warnings');
  const showWarnings = list(
    warnings,
    (warning) => warning,
    (warning) => {
      const element = el('div', 'warning', icon('warning'), ` ${said(warning.split('\n', 1)[0])}`);
      element.title = warning;
      return { element, update: () => undefined };
    },
  );
  const [queue, batches, workers] = [makeQueue(), makeBatches(context.history), makeWorkers(context)];
  const versions = makeVersions(context);
  const figures = [queue.element, batches.element, choice, times];
  const element = el('div', 'stage', head, why, ...figures, versions.element, warnings, workers.element);
  element.dataset.stage = id;
  const update = (stage, now, isAlone) => {
    setKind(element, stage.health);
    setKind(dot, stage.health);
    setTitle(dot, text(`health.${stage.health}`));
    setText(name, stage.name);
    setText(rate, stage.itemsPerSecond === null ? '' : text('perSecond', { count: count(stage.itemsPerSecond) }));
    const failing =
      stage.unservedPerSecond > 0 ? text('stage.unserved', { count: count(stage.unservedPerSecond) }) : '';
    const cached = stage.cached === null ? '' : text('stage.cached', { percent: Math.floor(stage.cached * 100) });
    const run = { p50: duration(stage.runP50), p99: duration(stage.runP99) };
    setText(times, (stage.runP50 === null ? text('stage.noRuns') : text('stage.times', run)) + cached + failing);
    setShown(why, stage.why !== null);
    setText(sentence, said(stage.why || ''));
    setShown(choice, stage.batchChoice !== null);
    setText(choice, said(stage.batchChoice || ''));
    showWarnings(stage.warnings);
    setShown(restart, context.mayAct());
    setShown(flush, context.mayAct() && stage.policy !== 'greedy' && stage.maxBatchSize > 1);
    versions.update(stage);
    queue.update(stage);
    batches.update(stage, now);
    workers.update(stage, isAlone);
  };
  return { element, update };
}

/** Keeps the points of the curves by stage: `note` takes each view, and `of` returns the points of one stage. */
export function makeHistory() {
  const byStage = new Map();
  const note = (stages, now) => {
    const ids = new Set(stages.map(({ id }) => id));
    for (const id of byStage.keys()) if (!ids.has(id)) byStage.delete(id);
    for (const { id, meanBatch, maxBatchSize, itemsPerSecond } of stages) {
      const points = (byStage.get(id) || []).filter(({ at }) => at > now - SPAN_MS);
      points.push({ at: now, fill: meanBatch === null ? null : meanBatch / maxBatchSize, rate: itemsPerSecond });
      byStage.set(id, points);
    }
  };
  return { note, of: (id) => byStage.get(id) || [] };
}
