/**
 * Lays nodes out on the canvas: rows of cells in groups, one group below the other, each node as wide as the editor will
 * draw it. Pure.
 *
 * A cell is `{key, type, label, props, to, isNameless}`: `to` has the keys of the next cells for each output, and the label of a
 * nameless node comes from its properties. An empty place of a row is null.
 */

const GRID = 20;
const NODE = { least: 100, height: 30, sides: 50 };
const GROUP = { sides: 25, ends: 25, apart: 20, button: 20 };
const ROW = 60;
const APART = 40;
/** The sides at which buttons of nodes stick out. */
const BUTTONS = { inject: 'left', debug: 'right' };
/** Badges that are longer than their nodes, in px: the next node has to keep away from them. */
const BADGES = { 'modelet-stage': 120, 'modelet-batcher': 170, 'modelet-feed': 190 };

/** Returns the width that the editor will give a node with this label, in px. `measure(text)`: the width of a text. */
export function nodeWidth({ label, type }, measure) {
  const hasInput = !['inject', 'http in', 'catch', 'comment'].includes(type);
  return Math.max(NODE.least, GRID * Math.ceil((measure(label) + NODE.sides + (hasInput ? 7 : 0)) / GRID));
}

/** Returns the left edge and the width of each column, from the widest cells of all rows. */
function columnsOf(rows, left, measure) {
  const count = Math.max(...rows.map((row) => row.length));
  const columns = [];
  let next = left;
  for (let at = 0; at < count; at += 1) {
    const cells = rows.flatMap((row) => row[at] ?? []);
    const widths = cells.map((cell) => Math.max(nodeWidth(cell, measure), BADGES[cell.type] ?? 0));
    columns.push(next);
    next += GRID * Math.ceil(Math.max(0, ...widths) / GRID) + APART;
  }
  return columns;
}

function nodeOf(cell, { x, y, ids, group }) {
  const { key, type, label, props = {}, to = [], isNameless, scopeOf } = cell;
  return {
    ...{ id: ids(key), type, g: group, ...props, name: isNameless ? '' : label, x, y },
    ...(scopeOf ? { scope: [ids(scopeOf)], uncaught: false } : {}),
    wires: to.map((keys) => keys.map(ids)),
  };
}

/** Returns the group of a block and its nodes. */
function drawBlock({ name, rows }, { left, top, measure, ids, newId }) {
  const id = newId();
  const hasButton = (side) => rows.some((row) => row.some((cell) => cell && BUTTONS[cell.type] === side));
  const start = left + GROUP.sides + (hasButton('left') ? GROUP.button : 0);
  const columns = columnsOf(rows, start, measure);
  const cells = rows.flatMap((row, line) => row.flatMap((cell, at) => (cell ? { cell, line, at } : [])));
  const nodes = cells.map(({ cell, line, at }) => {
    const width = nodeWidth(cell, measure);
    const y = top + GROUP.ends + NODE.height / 2 + line * ROW;
    return { right: columns[at] + width, node: nodeOf(cell, { x: columns[at] + width / 2, y, ids, group: id }) };
  });
  const right = Math.max(...nodes.map((one) => one.right)) + GROUP.sides + (hasButton('right') ? GROUP.button : 0);
  const height = 2 * GROUP.ends + NODE.height + (rows.length - 1) * ROW;
  const group = {
    ...{ id, type: 'group', name, style: { label: true }, nodes: nodes.map(({ node }) => node.id) },
    ...{ x: left, y: top, w: right - left, h: height },
  };
  return { height, nodes: [group, ...nodes.map(({ node }) => node)] };
}

/** Returns the nodes of a comment and of the blocks below it. `idOf`: ids by key, which it completes. */
export function layOut({ blocks, comment }, { left, top, widthOf: measure, newId, idOf }) {
  const ids = (key) => {
    if (!idOf.has(key)) idOf.set(key, newId());
    return idOf.get(key);
  };
  const width = nodeWidth({ label: comment.name, type: 'comment' }, measure);
  const x = left + GROUP.sides + width / 2;
  const drawn = [{ id: newId(), type: 'comment', ...comment, x, y: top + NODE.height / 2, wires: [] }];
  let next = top + NODE.height + GROUP.apart + 5;
  for (const block of blocks) {
    const { height, nodes } = drawBlock(block, { left, top: next, measure, ids, newId });
    drawn.push(...nodes);
    next += height + GROUP.apart;
  }
  return drawn;
}
