/**
 * Tests a stage in its dialog, with the settings as they stand there: an input, the result or the error, the times and the
 * log. The test stands beside the code if the window has room for both, else below it, folded. Attaches
 * `window.modelet.stageTest`; safe to load more than once.
 */
(() => {
  'use strict';

  /** The last sample of each stage, by its id, for as long as the editor is open. */
  const samples = new Map();

  /** The width of a form, in px, that has the test beside the code: stage-form.css wraps below the least. */
  const BESIDE = { least: 800, most: 940 };
  /** The margins of a dialog around its form, in px. */
  const MARGINS = 48;

  const PANEL = `
    <details id="modelet-stage-test">
      <summary class="modelet-section" data-text="title"></summary>
      <div class="modelet-test">
        <div>
          <label for="modelet-stage-test-sample" data-text="sample"></label>
          <textarea id="modelet-stage-test-sample" spellcheck="false"></textarea>
          <div class="modelet-hint" data-text="tip"></div>
          <button type="button" id="modelet-stage-test-run" class="red-ui-button"></button>
          <button type="button" id="modelet-stage-test-last" class="red-ui-button" data-text="last"></button>
        </div>
        <div>
          <label id="modelet-stage-test-label" data-text="result"></label>
          <pre id="modelet-stage-test-result" role="status" tabindex="0" aria-labelledby="modelet-stage-test-label"></pre>
          <button type="button" id="modelet-stage-test-place" class="red-ui-button red-ui-button-small"></button>
          <div class="modelet-hint" id="modelet-stage-test-times"></div>
          <div id="modelet-stage-test-logged">
            <label id="modelet-stage-test-log-label" data-text="log"></label>
            <pre id="modelet-stage-test-log" tabindex="0" aria-labelledby="modelet-stage-test-log-label"></pre>
          </div>
        </div>
      </div>
    </details>`;

  /** Parses the typed JSON; undefined if it is blank. Throws if it is not JSON. */
  function read(text) {
    return text.trim() === '' ? undefined : JSON.parse(text);
  }

  /** The settings as a deploy would save them now. */
  function settingsOf(node, tabs, libs) {
    const { current } = window.modelet.form;
    const settings = { id: node.id, z: node.z };
    for (const property of Object.keys(node._def.defaults)) settings[property] = current(node, property);
    for (const page of tabs.pages) settings[page.property] = page.editor.getValue();
    return { ...settings, libs: libs(settings.source) };
  }

  /** With a place in the code of the dialog, the stack is superfluous. */
  function describeError({ code, message, stack, place }) {
    return stack && !place ? `${code}: ${message}\n\n${stack}` : `${code}: ${message}`;
  }

  function describeTimes(say, node, { startMs = null, runMs = null, wholeMessages = null }) {
    const round = (ms) => (ms < 10 ? ms.toFixed(1) : Math.round(ms));
    const texts = [];
    if (startMs !== null) texts.push(say('started', { ms: round(startMs) }));
    if (runMs !== null) texts.push(say('ran', { ms: round(runMs) }));
    if (wholeMessages) {
      texts.push(say('wholeMessages', wholeMessages));
      texts.push(window.modelet.stageLive.describeCosts(node, wholeMessages.costs));
    }
    return texts.join(' ');
  }

  /** Describes an answer that is no test result: an error of the request, or the reason why there is no answer. */
  function describeFailure(say, { status, responseJSON }) {
    if (responseJSON?.error) return describeError(responseJSON.error);
    return say({ 0: 'unreachable', 401: 'forbidden', 403: 'forbidden' }[status] || 'failed', { status });
  }

  /**
   * Makes a dialog that is about to open as wide as code and test need. Returns whether the window has room for that.
   * Node-RED takes the width of the form as the least of the dialog.
   */
  function widen(form) {
    const room = $('#red-ui-editor-stack').position().left - MARGINS;
    if (room < BESIDE.least) return false;
    form.width(Math.min(room, BESIDE.most));
    return true;
  }

  /** Lets the form follow the dialog again, because the window may become narrower. */
  function follow(form) {
    form.css('width', '').closest('.red-ui-tray-body').css('min-width', '');
  }

  /**
   * options: `node`, `form` (its open dialog), `tabs` (its code), `libs(source)`: the modules that it would be saved with.
   * Call `resize` when the dialog has a new size, and `stop` when it closes: that ends a test that runs.
   */
  function attach({ node, form, tabs, libs }) {
    // Texts of the user must not be escaped: they are shown as text.
    const say = (key, values) =>
      node._(`modelet-stage.test.${key}`, { interpolation: { escapeValue: false }, ...values });
    const panel = $(PANEL).insertAfter(form.find('#modelet-stage-model')).prop('open', widen(form));
    const part = (name) => panel.find(`#modelet-stage-test-${name}`);
    panel.find('[data-text]').each((_, element) => void $(element).text(say($(element).attr('data-text'))));
    const sample = part('sample')
      .attr('placeholder', say('placeholder'))
      .val(samples.get(node.id) ?? '');
    const button = part('run');
    let request = null;

    const showLog = (lines, more) => {
      const texts = lines.map(({ level, text }) => `${level}: ${text}`);
      part('log').text([...texts, ...(more > 0 ? [say('more', { count: more })] : [])].join('\n'));
      part('logged').toggle(texts.length > 0);
    };

    const show = (text, isGood, times = '') => {
      part('result').text(text).toggleClass('modelet-bad', !isGood);
      part('times').text(times);
      part('place').hide();
    };

    const showPlace = (place, message) => {
      tabs.showError(place, message);
      part('place')
        .text(say('place', place))
        .show()
        .off('click')
        .on('click', () => tabs.goTo(place));
    };

    const answered = (answer) => {
      const { ok, result, error, example, log = [], more = 0 } = answer;
      if (example) sample.val(example);
      show(ok ? result : describeError(error), ok, describeTimes(say, node, answer));
      showLog(log, more);
      if (error?.place) showPlace(error.place, error.message);
    };

    const setRunning = (running) => {
      request = running;
      button.text(say(running ? 'cancel' : 'run'));
    };

    const stop = () => {
      samples.set(node.id, sample.val());
      request?.abort();
    };

    const run = () => {
      tabs.clearErrors();
      showLog([], 0);
      let input;
      try {
        input = read(sample.val());
      } catch (error) {
        show(say('notJson', { reason: error.message }), false);
        return;
      }
      show(say('running'), true);
      const body = JSON.stringify({ stage: settingsOf(node, tabs, libs), sample: input });
      const sent = $.ajax({ url: 'modelets/stages/test', type: 'POST', contentType: 'application/json', data: body });
      setRunning(sent);
      sent
        .done(answered)
        .fail((failure, how) => show(how === 'abort' ? say('cancelled') : describeFailure(say, failure), false))
        .always(() => setRunning(null));
    };

    const fetchLast = () => {
      $.getJSON(`modelets/stages/${encodeURIComponent(node.id)}/input`)
        .done((answer) => sample.val(JSON.stringify(answer.sample, null, 2)))
        .fail((failure) => show(failure.status === 404 ? say('noLast') : describeFailure(say, failure), false));
    };

    const mayDeploy = RED.user.hasPermission('flows.write');
    part('last').toggle(window.modelet.form.isRunning(node)).prop('disabled', !mayDeploy).on('click', fetchLast);
    button.prop('disabled', !mayDeploy).on('click', () => (request ? stop() : run()));
    sample.on('keydown', ({ key, ctrlKey, metaKey }) => {
      if (key === 'Enter' && (ctrlKey || metaKey) && !request) run();
    });
    setRunning(null);
    part('place').hide();
    showLog([], 0);
    return { resize: () => follow(form), stop };
  }

  window.modelet = window.modelet || {};
  window.modelet.stageTest = { attach };
})();
