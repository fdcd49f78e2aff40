/**
 * Lists in a runtime's dialog the known models that came from hubs, with their sizes, and removes those that no deployed stage
 * uses. Attaches `window.modelet.modelsList`.
 */
import { sizeText } from './form.js';

const URL = 'modelets/models';

/** Shows the list in the open dialog `form`. */
function attach(node, form) {
  const list = form.find('#modelet-runtime-models');
  const state = form.find('#modelet-runtime-models-state');
  const say = (key, values) => node._(`modelet-runtime.models.${key}`, values);
  const fail = ({ status, responseJSON }) =>
    state.addClass('modelet-bad').text(status === 401 ? say('forbidden') : (responseJSON?.error ?? say('unreachable')));

  const row = ({ folder, model, bytes, isPartial, stages }) => {
    const notes = [sizeText(bytes)];
    if (isPartial) notes.push(say('partial'));
    if (stages.length > 0) notes.push(say('usedBy', { names: stages.join(', ') }));
    const button = $('<button type="button" class="red-ui-button red-ui-button-small">').text(say('remove'));
    button.attr('aria-label', say('removeOne', { model })).prop('disabled', stages.length > 0);
    button.on('click', (event) => {
      event.preventDefault();
      $.ajax({ url: `${URL}/${encodeURIComponent(folder)}`, method: 'DELETE' })
        .done(show)
        .fail(fail);
    });
    return $('<li>').append(
      $('<span>').text(model),
      ' ',
      $('<span class="modelet-unit">').text(notes.join(', ')),
      ' ',
      button,
    );
  };

  function show() {
    $.getJSON(URL)
      .done(({ folder, maxBytes, models }) => {
        list.empty().append(models.map(row));
        const held = sizeText(models.reduce((sum, { bytes }) => sum + bytes, 0));
        const words = models.length === 0 ? say('none') : say('held', { held, most: sizeText(maxBytes), folder });
        state.removeClass('modelet-bad').text(words);
      })
      .fail(fail);
  }
  show();
}

window.modelet ??= {};
window.modelet.modelsList = { attach };
