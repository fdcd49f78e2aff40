/**
 * The list of clients in the dialog of a keys node. Keys are hashed here, so that Node-RED never gets them. Browsers
 * offer their own SHA-256 to HTTPS pages only, and many editors are not. Attaches `window.modelet.clientKeys`.
 */
(() => {
  'use strict';

  if (window.modelet?.clientKeys) return;

  const KEY = /^[\x21-\x7e]{16,512}$/;
  const TYPE = 'modelet-keys';

  /** The first 32 bits behind the point of the roots of the first primes, as SHA-256 defines its constants. */
  function fractions(root, count) {
    const found = [];
    for (let n = 2; found.length < count; n += 1) {
      const isPrime = !Array.from({ length: n - 2 }, (_, i) => i + 2).some((d) => n % d === 0);
      if (isPrime) found.push(((root(n) % 1) * 2 ** 32) | 0);
    }
    return found;
  }

  const ROUNDS = fractions(Math.cbrt, 64);
  const START = fractions(Math.sqrt, 8);

  const turn = (word, by) => (word >>> by) | (word << (32 - by));

  /** Returns the SHA-256 of ASCII text, in hexadecimal. */
  function sha256(text) {
    const blocks = Math.ceil((text.length + 9) / 64);
    const bytes = new DataView(new ArrayBuffer(blocks * 64));
    for (let i = 0; i < text.length; i += 1) bytes.setUint8(i, text.charCodeAt(i));
    bytes.setUint8(text.length, 0x80);
    bytes.setUint32(blocks * 64 - 4, text.length * 8);
    let state = START;
    for (let block = 0; block < blocks; block += 1) {
      const words = Array.from({ length: 16 }, (_, i) => bytes.getInt32(block * 64 + i * 4));
      for (let i = 16; i < 64; i += 1) {
        const [early, late] = [words[i - 15], words[i - 2]];
        const one = turn(early, 7) ^ turn(early, 18) ^ (early >>> 3);
        const two = turn(late, 17) ^ turn(late, 19) ^ (late >>> 10);
        words.push((words[i - 16] + one + words[i - 7] + two) | 0);
      }
      let [a, b, c, d, e, f, g, h] = state;
      for (let i = 0; i < 64; i += 1) {
        const mixed = (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g));
        const first = (h + mixed + ROUNDS[i] + words[i]) | 0;
        const second = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
        [a, b, c, d, e, f, g, h] = [(first + second) | 0, a, b, c, (d + first) | 0, e, f, g];
      }
      state = [a, b, c, d, e, f, g, h].map((word, i) => (word + state[i]) | 0);
    }
    return state.map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
  }

  /** A key that nobody guesses: 192 random bits. */
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
        const rows = list
          .editableList('items')
          .toArray()
          .map((item) => $(item).data('row'));
        const kept = {};
        const read = rows.map(({ inputs, hash }) => {
          const value = (property) => inputs[property].val().trim();
          const [name, key] = [value('name'), value('key')];
          const known = KEY.test(key) ? sha256(key) : key === '' ? hash : undefined;
          if (known) kept[name] = known;
          return { name, rate: value('rate'), concurrent: value('concurrent'), paths: value('paths') };
        });
        return { clients: read, hashes: JSON.stringify(kept) };
      },
    };
  }

  window.modelet ??= {};
  window.modelet.clientKeys = { create, sha256 };
})();
