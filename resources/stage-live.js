/**
 * Shows the state of the running stage in its dialog, in the words of its badge, while the page with it is in sight, and
 * marks the line of its code that failed last.
 */
import { isRunning } from './form.js';
import { said } from './sidebar-dom.js';

const EVERY_MS = 1000;
/** A place in inline code, in messages: `Predict:3:14`. */
const PLACE = /(On Start|Predict|On Stop):(\d+)/;
const PROPERTIES = { 'On Start': 'setup', Predict: 'code', 'On Stop': 'teardown' };

function stageOf(view, id) {
  for (const runtime of view.runtimes) {
    const stage = runtime.stages.find((candidate) => candidate.id === id);
    if (stage) return { stage, runtime };
  }
  return null;
}

const sizeOf = (bytes) => (bytes < 10_000 ? `${Math.round(bytes)} B` : `${Math.round(bytes / 1024)} KB`);

/** A sentence about the costs of whole messages, as Node-RED has added them up; blank before the first message. */
export function describeCosts(node, costs) {
  if (!costs?.messages) return '';
  const { messages, bytesOut, bytesBack, ms } = costs;
  const [sent, back] = [bytesOut, bytesBack].map((bytes) => sizeOf(bytes / messages));
  return node._('modelet-stage.live.costs', { messages, sent, back, ms: (ms / messages).toPrecision(2) });
}

function showCosts(node, form, costs) {
  const text = describeCosts(node, costs);
  form.find('#modelet-stage-costs').text(text);
  form.find('#modelet-stage-costs-row').toggle(text !== '');
}

function show(form, found) {
  form.find('#modelet-stage-undeployed').toggle(found === null);
  if (!found) return;
  const { stage, runtime } = found;
  const failed = stage.workers.find(({ error }) => error !== null);
  const error = failed?.error ?? stage.successorError ?? runtime.error ?? '';
  form.find('#modelet-stage-state').text(stage.why ? `${said(stage.words)}. ${said(stage.why)}` : said(stage.words));
  form.find('#modelet-stage-error').text(said(error));
  form.find('#modelet-stage-error-row').toggle(error !== '');
}

/** Asks for the state until the dialog closes; does nothing while the page is hidden. Returns the function that ends it. */
export function watch(node, form) {
  const page = form.find('#modelet-stage-live');
  let isOpen = true;
  const ask = () => {
    if (!isOpen || page.prop('hidden')) return;
    $.getJSON('modelets/view').done((view) => {
      if (!isOpen) return;
      show(form, stageOf(view, node.id));
      showCosts(node, form, view.wholeMessages[node.id]);
    });
  };
  const timer = setInterval(ask, EVERY_MS);
  const stop = () => {
    isOpen = false;
    clearInterval(timer);
  };
  return { ask, stop };
}

/** The last failure, with its place in the code: a start, or else a request that no user has marked as seen. */
function lastFailure({ verdict }, { id, successorError, workers }) {
  const told = [verdict, ...verdict.others].filter(({ node }) => node === id);
  const starts = workers.map(({ error }) => error);
  return [successorError, ...starts, ...told.map(({ text }) => text)].find((text) => PLACE.test(text ?? ''));
}

/** Underlines the line in the dialog's code, and says below why, until the code changes. It has to be the deployed code. */
export function markFailure(node, tabs) {
  if (!isRunning(node) || node.changed) return;
  $.getJSON('modelets/view').done((view) => {
    const found = stageOf(view, node.id);
    const failure = found && lastFailure(view, found.stage);
    if (!failure) return;
    const [, tab, line] = PLACE.exec(failure);
    const property = PROPERTIES[tab];
    const page = tabs.pages.find((candidate) => candidate.property === property);
    if (page?.editor.getValue() !== node[property]) return;
    const text = `${node._('modelet-stage.live.failed')} ${failure}`;
    tabs.showError({ property, line: Number(line) }, text);
    $('<div class="modelet-bad" role="status">').text(text).prependTo(page.hint);
  });
}
