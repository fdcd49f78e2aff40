/**
 * Writes the address of this Node-RED into the comments of examples, so that their curl lines can be pasted as they are.
 * An example has `${MODELET_URL}` there, as flows have it in `$env("MODELET_URL")`: the file does not know the port, the
 * `httpNodeRoot` and TLS of the Node-RED that imports it.
 */

const PLACEHOLDER = '$' + '{MODELET_URL}';

/** The address below which HTTP-in nodes answer, as this browser reaches them, without a slash at its end. */
function address() {
  return `${location.origin}/${RED.settings.httpNodeRoot ?? ''}`.replace(/([^:])\/+/g, '$1/').replace(/\/$/, '');
}

/** Before the node is drawn. A change is saved with the next deploy, and asks for none. */
function fillIn(node) {
  if (node.type !== 'comment') return;
  for (const property of ['name', 'info']) {
    const text = node[property];
    if (typeof text === 'string' && text.includes(PLACEHOLDER))
      node[property] = text.replaceAll(PLACEHOLDER, address());
  }
}

RED.events.on('nodes:add', fillIn);
