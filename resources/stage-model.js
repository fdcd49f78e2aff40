/**
 * Says in a stage's dialog where the folder of a known model is, or what it lacks. For a name on a hub it lists the files with
 * their sizes, and downloads them at the press of a button.
 */
import { sizeText } from './form.js';
import { describePath } from './stage-file.js';

const URL = 'modelets/models';
const EVERY_MS = 500;

function send(method, url, body) {
  return $.ajax({ url, method, contentType: 'application/json', data: JSON.stringify(body) });
}

/** Watches the open dialog `form`. Returns `{show, stop}`: call `show` when model, task or precision have changed. */
export function watch(node, form) {
  const line = form.find('#modelet-stage-folder');
  const part = form.find('#modelet-stage-hub').hide();
  const files = part.find('#modelet-stage-hub-files');
  const [download, cancel] = ['download', 'cancel'].map((name) => part.find(`#modelet-stage-${name}`));
  const progress = part.find('#modelet-stage-download-state');
  const say = (key, values) => node._(`modelet-stage.hub.${key}`, values);
  const value = (property) => form.find(`#node-input-${property}`).val().trim();
  const fields = () => ({ model: value('model'), task: value('task'), precision: value('precision') });
  /** The token of the runtime, if it is not deployed yet. */
  const wanted = () => {
    const runtime = form.find('#node-input-runtime').val();
    return { ...fields(), runtime, token: RED.nodes.node(runtime)?.credentials?.token };
  };
  let isOpen = true;
  let timer = null;
  const isStill = (asked) => isOpen && JSON.stringify(asked) === JSON.stringify(fields());

  const tell = (words, isBad = false) => progress.text(words).toggleClass('modelet-bad', isBad);
  const fail = ({ status, responseJSON }) =>
    isOpen && tell(status === 401 ? say('forbidden') : (responseJSON?.error ?? say('unreachable')), true);

  const told = {
    none: () => tell(''),
    waiting: () => tell(say('waiting')),
    running: ({ bytes, of, file }) => {
      const share = Math.floor((100 * bytes) / Math.max(1, of));
      tell(say('running', { share, bytes: sizeText(bytes), of: sizeText(of), file }));
    },
    failed: ({ code, error }) => (code === 'cancelled' ? tell(say('cancelled')) : tell(error, true)),
    done: () => show(say('done')),
  };

  /** Shows how far a download is, until it ends. */
  const report = (view, asked) => {
    const isOn = ['waiting', 'running'].includes(view.state);
    clearTimeout(timer);
    download.toggle(!isOn).prop('disabled', false);
    cancel.toggle(isOn);
    if (isOn) timer = setTimeout(() => poll(asked), EVERY_MS);
    told[view.state](view);
  };

  const poll = (asked) => {
    if (!isStill(asked)) return;
    $.getJSON(`${URL}/download`, { model: value('model').replace(/@main$/, '') })
      .done((view) => isStill(asked) && report(view, asked))
      // Node-RED may be restarting.
      .fail(() => {
        if (isStill(asked)) timer = setTimeout(() => poll(asked), EVERY_MS);
      });
  };

  /** Lists what a download brings. */
  const offer = ({ files: needed, bytes, refused, download: view, error }, asked) => {
    if (error) return tell(error, true);
    const total = needed.reduce((sum, { size }) => sum + size, 0);
    const named = needed.map(({ name, size }) => `${name} ${sizeText(size)}`).join(', ');
    files.text(say('files', { total: sizeText(total), named }));
    download.toggle(refused === null).prop('disabled', false);
    download.find('span').text(say('download', { bytes: sizeText(bytes) }));
    tell(refused === null ? '' : say('refused', { setting: refused }), refused !== null);
    if (view && refused === null && view.state !== 'done') report(view, asked);
  };

  const look = (asked) => {
    part.show();
    tell(say('looking'));
    send('POST', `${URL}/look`, wanted())
      .done((answer) => isStill(asked) && offer(answer, asked))
      .fail((refusal) => isStill(asked) && fail(refusal));
  };

  download.on('click', (event) => {
    event.preventDefault();
    const asked = fields();
    download.prop('disabled', true);
    send('POST', URL, wanted())
      .done((view) => isStill(asked) && report(view, asked))
      .fail(fail);
  });
  cancel.on('click', (event) => {
    event.preventDefault();
    send('DELETE', `${URL}/download?${$.param({ model: value('model').replace(/@main$/, '') })}`).fail(fail);
  });

  /** @param words for a model that is there */
  function show(words = '') {
    clearTimeout(timer);
    line.empty().hide();
    part.hide();
    files.empty();
    for (const button of [download, cancel]) button.hide();
    const asked = fields();
    if (form.find('#node-input-source').val() !== 'task' || asked.model === '') return;
    const { model: path, task, precision } = asked;
    $.getJSON('modelets/resolve', { path, task, precision })
      .done((answer) => {
        if (!isStill(asked)) return;
        if (answer.hub && !answer.exists) return look(asked);
        describePath(node, line, answer);
        if (words) {
          part.show();
          tell(words);
        }
      })
      .fail((refusal) => isStill(asked) && part.show() && fail(refusal));
  }

  const stop = () => {
    isOpen = false;
    clearTimeout(timer);
  };
  return { show: () => show(), stop };
}
