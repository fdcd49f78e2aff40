/**
 * The live line of a batcher's dialog: the batches that its settings make of the requests that come now. Attaches
 * `window.modelet.batcherLive`.
 */
import { isRunning } from './form.js';
import { nearest } from './new-pipeline/canvas.js';
import { said } from './sidebar-dom.js';

const INTERVAL_MS = 1000;
const STAGE = 'modelet-stage';

function stageBehind(node) {
  return nearest(node, 'target').find(({ type }) => type === STAGE)?.id ?? null;
}

/** Mean size of the batches while a worker is free, if requests come at random at this rate per second. */
function batchSize({ policy, maxBatchSize, maxWaitMs }, rate) {
  const expected = (rate * maxWaitMs) / 1000;
  // A gap ends when nothing has come for the whole wait: each item that comes in time begins another.
  const size = policy === 'gap' ? Math.exp(expected) : 1 + expected;
  return Math.min(maxBatchSize, size);
}

function rounded(value) {
  return value >= 10 ? Math.round(value) : Math.round(value * 10) / 10;
}

function describe(node, settings, { itemsPerSecond, meanBatch, batchChoice }) {
  const text = (key, values) => node._(`modelet-batcher.now.${key}`, values);
  if (!(itemsPerSecond > 0)) return text('quiet');
  const rate = rounded(itemsPerSecond);
  const measured = meanBatch === null ? '' : ` ${text('measured', { size: rounded(meanBatch) })}`;
  if (settings.policy === 'greedy') return `${text('greedy', { rate })}${measured}`;
  if (settings.policy === 'adaptive') {
    const choice = batchChoice === null ? '' : ` ${text('choice', { choice: said(batchChoice) })}`;
    return `${text('adaptive', { rate })}${measured}${choice}`;
  }
  if (!(settings.maxWaitMs >= 0 && settings.maxBatchSize >= 1)) return '';
  const size = rounded(batchSize(settings, itemsPerSecond));
  return `${text('waits', { rate, wait: settings.maxWaitMs, size })}${measured}`;
}

/** The timer of the open dialog: only one batcher's dialog can be open. */
let timer = null;

function close() {
  clearInterval(timer);
  timer = null;
}

function open(node, line, read) {
  close();
  const id = stageBehind(node);
  // Asking without permission would bring up the login.
  if (id === null || !isRunning(node) || !RED.user.hasPermission('modelets.read')) return;
  let stage = null;
  const show = () => {
    line.toggle(stage !== null);
    if (stage !== null) line.text(describe(node, read(), stage));
  };
  const look = () =>
    $.getJSON('modelets/view').done(({ runtimes }) => {
      const stages = runtimes.flatMap((runtime) => runtime.stages);
      // At the first look there are no rates yet.
      stage = stages.find((other) => other.id === id && other.itemsPerSecond !== null) || null;
      show();
    });
  line.closest('.modelet-form').on('input change', show);
  look();
  timer = setInterval(look, INTERVAL_MS);
}

window.modelet ??= {};
window.modelet.batcherLive = { open, close };
