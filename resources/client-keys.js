/**
 * The list of clients in the dialog of a keys node. Keys are hashed in the browser, so that Node-RED never gets them.
 * Browsers offer their own SHA-256 to HTTPS pages only, so the page of the node brings `window.modelet.sha256`, from the
 * library js-sha256. Attaches `window.modelet.clientKeys`.
 */

import { listRows } from './form.js';

const KEY = /^[\x21-\x7e]{16,512}$/;
const TYPE = 'modelet-keys';

/** Returns a new key: 192 random bits. */
function makeKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(24));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function readHashes(text) {
  try {
    return JSON.parse(text || '{}');
  } catch {
    return {};
  }
}

/** Shows the clients of a node in `list`, an ol. `read()` returns them as they are now, with the hashes by name. */
function create({ node, list, clients, hashes: text }) {
  const say = (key) => node._(`${TYPE}.${key}`);
  const hashes = readHashes(text);
  const field = (row, property, value) =>
    $('<input type="text" autocomplete="off">')
      .addClass(`modelet-client-${property}`)
      .attr({ placeholder: say(`placeholder.${property}`), 'aria-label': say(`field.${property}`) })
      .attr('title', say(`field.${property}`))
      .val(value || '')
      .appendTo(row);

  function showKey(row, { hash }) {
    const key = field(row, 'key', '');
    if (hash) key.attr('placeholder', say('placeholder.kept'));
    const check = () => {
      const isMissing = key.val() === '' && !hash;
      key.toggleClass('input-error', isMissing || (key.val() !== '' && !KEY.test(key.val())));
    };
    key.on('input change', check);
    check();
    const make = $('<button type="button" class="red-ui-button"><i class="fa fa-random"></i></button>');
    make.attr({ title: say('generate'), 'aria-label': say('generate') }).appendTo(row);
    make.on('click', () => key.val(makeKey()).trigger('change'));
    return key;
  }

  list.css('min-height', '120px').editableList({
    sortable: true,
    removable: true,
    addItem(container, _index, client) {
      const first = $('<div class="modelet-client">').appendTo(container);
      const second = $('<div class="modelet-client">').appendTo(container);
      const name = field(first, 'name', client.name);
      const key = showKey(first, client);
      const inputs = { name, key };
      for (const property of ['rate', 'concurrent', 'paths'])
        inputs[property] = field(second, property, client[property]);
      // The list draws this link behind the row.
      setTimeout(() => container.siblings('.red-ui-editableList-item-remove').attr('aria-label', say('remove')));
      container.data('row', { inputs, hash: client.hash });
    },
  });
  for (const client of clients) list.editableList('addItem', { ...client, hash: hashes[client.name] });

  return {
    read() {
      const kept = {};
      const read = listRows(list).map(({ inputs, hash }) => {
        const value = (property) => inputs[property].val().trim();
        const [name, key] = [value('name'), value('key')];
        const known = KEY.test(key) ? window.modelet.sha256(key) : key === '' ? hash : undefined;
        if (known) kept[name] = known;
        return { name, rate: value('rate'), concurrent: value('concurrent'), paths: value('paths') };
      });
      return { clients: read, hashes: JSON.stringify(kept) };
    },
  };
}

window.modelet ??= {};
window.modelet.clientKeys = { create };
