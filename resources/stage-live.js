/**
 * Shows the state of the running stage in its dialog, in the words of its badge, while the page with it is in sight. Attaches
 * `window.modelet.stageLive`; safe to load more than once.
 */
(() => {
  'use strict';

  const EVERY_MS = 1000;

  function stageOf(view, id) {
    for (const runtime of view.runtimes) {
      const stage = runtime.stages.find((candidate) => candidate.id === id);
      if (stage) return { stage, runtime };
    }
    return null;
  }

  function show(form, found) {
    form.find('#modelet-stage-undeployed').toggle(found === null);
    if (!found) return;
    const { stage, runtime } = found;
    const failed = stage.workers.find(({ error }) => error !== null);
    const error = failed?.error ?? runtime.error ?? '';
    form.find('#modelet-stage-state').text(stage.why ? `${stage.words}. ${stage.why}` : stage.words);
    form.find('#modelet-stage-error').text(error);
    form.find('#modelet-stage-error-row').toggle(error !== '');
  }

  /** Asks for the state until the dialog closes; does nothing while the page is hidden. Returns the function that ends it. */
  function watch(node, form) {
    const page = form.find('#modelet-stage-live');
    let isOpen = true;
    const ask = () => {
      if (!isOpen || page.prop('hidden')) return;
      $.getJSON('modelets/view').done((view) => isOpen && show(form, stageOf(view, node.id)));
    };
    const timer = setInterval(ask, EVERY_MS);
    const stop = () => {
      isOpen = false;
      clearInterval(timer);
    };
    return { ask, stop };
  }

  window.modelet = window.modelet || {};
  window.modelet.stageLive = { watch };
})();
