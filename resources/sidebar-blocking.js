/** The row of the sidebar that says which function nodes block Node-RED, with the button that makes a stage of such a node. */
import { duration } from './figures.js';
import { el, list, setShown, setText, smallButton, text, textButton } from './sidebar-dom.js';

/** Set in the browser by a user who does not want to see the row. */
const HIDDEN_KEY = 'modelet-sidebar-no-blocking';

/** Returns the function node in the editor; null if it is gone, or is a stage by now. */
function drawn(id) {
  const node = RED.nodes.node(id) ?? RED.nodes.node(id.split('-').at(-1));
  return node?.type === 'function' ? node : null;
}

function convert(id) {
  const node = drawn(id);
  if (!node) return;
  RED.view.reveal(node.id);
  RED.view.select(node.id);
  RED.actions.invoke('modelets:function-to-stage');
}

function makeRow({ id }, reveal) {
  const words = textButton('blocking-text', '', () => reveal(drawn(id)?.id ?? id));
  const element = el(
    'li',
    'blocking-row',
    words,
    smallButton('blocking-convert', text('blocking.convert'), () => convert(id)),
  );
  const update = ({ name, times, longestMs }) => {
    // Names come from users: they are not interpolated.
    const said = text(times === 1 ? 'blocking.once' : 'blocking.times', { count: times, time: duration(longestMs) });
    setText(words, `${name || text('blocking.unnamed')} ${said}`);
  };
  return { element, update };
}

/** `reveal(id)` shows a node on the canvas. */
export function makeBlocking({ reveal }) {
  const rows = el('ul', 'blocking-rows');
  const hide = smallButton('blocking-hide', text('blocking.hide'), () => {
    RED.settings.setLocal(HIDDEN_KEY, 'true');
    setShown(element, false);
  });
  const element = el('div', 'blocking', rows, hide);
  element.setAttribute('role', 'status');
  element.hidden = true;
  const show = list(
    rows,
    ({ id }) => id,
    (node) => makeRow(node, reveal),
  );
  const update = ({ blocking = [] }) => {
    const shown = RED.settings.getLocal(HIDDEN_KEY) ? [] : blocking.filter(({ id }) => drawn(id) !== null);
    show(shown);
    setShown(element, shown.length > 0);
  };
  return { element, update };
}
