/**
 * Tests a stage in its dialog, with the settings as they stand there: an input or a file, the result or the error, the
 * picture with the result drawn over it, the times and the log. The test stands beside the code if the window has room for
 * both, else below it, folded.
 */
import { current, isRunning } from './form.js';
import { sampleFor } from './new-pipeline/stages.js';
import { describeCosts } from './stage-live.js';

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
        <button type="button" id="modelet-stage-test-choose" class="red-ui-button" data-text="file"></button>
        <input type="file" id="modelet-stage-test-chosen" accept="image/*,audio/*" style="display: none">
        <div id="modelet-stage-test-file">
          <span id="modelet-stage-test-name"></span>
          <button type="button" id="modelet-stage-test-remove" class="red-ui-button red-ui-button-small"><i class="fa fa-times" aria-hidden="true"></i></button>
        </div>
      </div>
      <div>
        <label id="modelet-stage-test-label" data-text="result"></label>
        <img id="modelet-stage-test-picture">
        <div id="modelet-stage-test-bars"></div>
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

/** Returns the request with typed JSON, which may be blank. Throws if it is not JSON. */
function asJson(asked, text) {
  const sample = text.trim() === '' ? undefined : JSON.parse(text);
  return { contentType: 'application/json', data: JSON.stringify({ ...asked, sample }) };
}

/** Returns the request with a file: its bytes stand behind a line of JSON. */
function asBytes(asked, file) {
  const data = new Blob([JSON.stringify(asked), '\n', file]);
  return { contentType: 'application/octet-stream', data, processData: false };
}

/** The settings as a deploy would save them now. */
function settingsOf(node, tabs, libs) {
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
    texts.push(describeCosts(node, wholeMessages.costs));
  }
  return texts.join(' ');
}

/** Returns the labels of a result `[{label, score}]`; none of a result with boxes, or of any other form. */
function labelsIn(result) {
  try {
    const list = JSON.parse(result);
    const isLabel = (one) => typeof one?.label === 'string' && typeof one.score === 'number' && !one.box;
    return Array.isArray(list) && list.every(isLabel) ? list : [];
  } catch (_error) {
    // The result is no JSON.
    return [];
  }
}

/** Shows a picture with the result drawn over it, and labels with a bar for each score. Returns the function that does. */
function makeDrawing(picture, bars) {
  let address = null;
  return ({ drawing = null, result = '' } = {}) => {
    if (address) URL.revokeObjectURL(address);
    address = drawing && URL.createObjectURL(new Blob([drawing], { type: 'image/svg+xml' }));
    picture.attr('src', address).toggle(address !== null);
    const rows = labelsIn(result).map(({ label, score }) =>
      $('<div class="modelet-test-bar">').append(
        $('<span>').text(label),
        $('<meter>', { min: 0, max: 1, value: score, 'aria-label': label }),
      ),
    );
    bars
      .empty()
      .append(rows)
      .toggle(rows.length > 0);
  };
}

/** Lets a user choose a file, or drop it, in place of the JSON. Returns the function that gives the file, or null. */
function makeFile(panel, part, say, first) {
  let file = first;
  const take = (chosen) => {
    file = chosen;
    const size = file && (file.size < 1e6 ? `${Math.ceil(file.size / 1e3)} kB` : `${(file.size / 1e6).toFixed(1)} MB`);
    part('name').text(file ? `${file.name}, ${size}` : '');
    part('file').toggle(file !== null);
    part('sample').prop('disabled', file !== null);
  };
  part('choose')
    .attr('title', say('fileTip'))
    .on('click', () => part('chosen').val('').trigger('click'));
  part('chosen').on('change', ({ target }) => take(target.files[0] ?? null));
  part('remove')
    .attr('aria-label', say('removeFile'))
    .on('click', () => take(null));
  panel.on('dragover drop', (event) => {
    // Node-RED imports the files that are dropped elsewhere.
    event.preventDefault();
    event.stopPropagation();
    const [dropped] = event.originalEvent.dataTransfer?.files ?? [];
    if (event.type === 'drop' && dropped) take(dropped);
  });
  take(first);
  return { get: () => file, clear: () => take(null) };
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

/** Returns an input of the kind that the chosen source takes. Pictures and sounds come as files. */
function exampleFor(node, say) {
  const [source, task] = ['source', 'task'].map((name) => current(node, name));
  const isFile = source === 'task' && ['picture', 'sound'].includes(window.modelet.tasks[task]?.input);
  return isFile ? say('byFile') : JSON.stringify(sampleFor({ source, task }));
}

/**
 * options: `node`, `form` (its open dialog), `tabs` (its code), `libs(source)`: the modules that it would be saved with.
 * Call `resize` when the dialog has a new size, and `stop` when it closes: that ends a test that runs. The rest is for
 * stage-measure.js: `sending` returns the request for the settings and the input, with more; it throws if that is not JSON.
 */
export function attach({ node, form, tabs, libs }) {
  // Texts of the user must not be escaped: they are shown as text.
  const say = (key, values) =>
    node._(`modelet-stage.test.${key}`, { interpolation: { escapeValue: false }, ...values });
  const panel = $(PANEL).insertAfter(form.find('#modelet-stage-model')).prop('open', widen(form));
  const part = (name) => panel.find(`#modelet-stage-test-${name}`);
  panel.find('[data-text]').each((_, element) => void $(element).text(say($(element).attr('data-text'))));
  const sample = part('sample').val(samples.get(node.id)?.text ?? '');
  const suggest = () => void sample.attr('placeholder', exampleFor(node, say));
  form.find('#node-input-source, #node-input-task').on('change', suggest);
  suggest();
  const file = makeFile(panel, part, say, samples.get(node.id)?.file ?? null);
  const draw = makeDrawing(part('picture').attr('alt', say('drawn')), part('bars'));
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
    draw();
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
    if (ok) draw(answer);
    showLog(log, more);
    if (error?.place) showPlace(error.place, error.message);
  };

  const setRunning = (running) => {
    request = running;
    button.text(say(running ? 'cancel' : 'run'));
  };

  const stop = () => {
    samples.set(node.id, { text: sample.val(), file: file.get() });
    request?.abort();
  };

  const sending = (more = {}) => {
    const asked = { stage: settingsOf(node, tabs, libs), ...more };
    return file.get() ? asBytes(asked, file.get()) : asJson(asked, sample.val());
  };

  const run = () => {
    tabs.clearErrors();
    showLog([], 0);
    let input;
    try {
      input = sending();
    } catch (error) {
      show(say('notJson', { reason: error.message }), false);
      return;
    }
    show(say('running'), true);
    const sent = $.ajax({ url: 'modelets/stages/test', type: 'POST', ...input });
    setRunning(sent);
    sent
      .done(answered)
      .fail((failure, how) => show(how === 'abort' ? say('cancelled') : describeFailure(say, failure), false))
      .always(() => setRunning(null));
  };

  const fetchLast = () => {
    $.getJSON(`modelets/stages/${encodeURIComponent(node.id)}/input`)
      .done((answer) => {
        file.clear();
        sample.val(JSON.stringify(answer.sample, null, 2));
      })
      .fail((failure) => show(failure.status === 404 ? say('noLast') : describeFailure(say, failure), false));
  };

  const mayDeploy = RED.user.hasPermission('flows.write');
  part('last').toggle(isRunning(node)).prop('disabled', !mayDeploy).on('click', fetchLast);
  button.prop('disabled', !mayDeploy).on('click', () => (request ? stop() : run()));
  sample.on('keydown', ({ key, ctrlKey, metaKey }) => {
    if (key === 'Enter' && (ctrlKey || metaKey) && !request) run();
  });
  setRunning(null);
  part('place').hide();
  showLog([], 0);
  return {
    resize: () => follow(form),
    stop,
    panel,
    say,
    sending,
    describeFailure: (one) => describeFailure(say, one),
  };
}
