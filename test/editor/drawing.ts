/** Looks at how a flow is drawn: the boxes and wires that the editor has on its canvas. Runs in the page, sent there as text. */

/** Badges as they usually are, by which a drawing must have room. */
export const BADGES: Readonly<Record<string, string>> = {
  'modelet-stage': 'idle, {workers} workers',
  'modelet-batcher': 'no batch yet, up to 32',
  'modelet-gate': 'open, 100 % free',
  'modelet-feed': '128 of 1000 in progress',
};

export interface Drawn {
  readonly nodes: readonly { id: string; type: string; name: string; w: number; h: number; badge: number }[];
  /** A sentence for each thing that lies over another or is cut off. */
  readonly faults: readonly string[];
}

interface CanvasNode {
  readonly id: string;
  readonly type: string;
  readonly name?: string;
  readonly w: number;
  readonly h: number;
  readonly g?: string;
  readonly workers?: string;
  status: object;
  dirtyStatus: boolean;
  dirty: boolean;
}

interface Shape {
  getAttribute(name: string): string | null;
  getBoundingClientRect(): Box;
  getTotalLength(): number;
  getPointAtLength(length: number): { x: number; y: number };
  querySelector(selector: string): Shape | null;
  readonly id: string;
  readonly textContent: string;
  readonly __data__?: { source: { id: string }; target: { id: string } };
}

interface Box {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

declare const document: { querySelector(selector: string): Shape; querySelectorAll(selector: string): Iterable<Shape> };
declare const RED: {
  readonly nodes: { filterNodes(filter: object): CanvasNode[]; node(id: string): CanvasNode | null };
  readonly workspaces: { active(): string };
  readonly view: { redraw(all: boolean, now: boolean): void };
};

/** Runs in the page: gives each node the longest badge that it usually has, and returns what lies over what. */
export function lookAtDrawing(badges: Readonly<Record<string, string>>): Drawn {
  const nodes = RED.nodes.filterNodes({ z: RED.workspaces.active() });
  for (const node of nodes) {
    const text = badges[node.type]?.replace('{workers}', String(node.workers));
    node.status = text ? { text, fill: 'green', shape: 'dot' } : {};
    node.dirtyStatus = true;
    node.dirty = true;
  }
  RED.view.redraw(true, true);

  const origin = document.querySelector('#red-ui-workspace-chart > svg').getBoundingClientRect();
  const boxOf = (shape: Shape, inset = 0): Box => {
    const { left, top, right, bottom } = shape.getBoundingClientRect();
    const [dx, dy] = [origin.left - inset, origin.top - inset];
    return { left: left - dx, top: top - dy, right: right - dx - 2 * inset, bottom: bottom - dy - 2 * inset };
  };
  const meet = (one: Box, other: Box): boolean =>
    one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
  const holds = (outer: Box, inner: Box): boolean =>
    outer.left <= inner.left && outer.top <= inner.top && outer.right >= inner.right && outer.bottom >= inner.bottom;

  interface Piece {
    readonly what: string;
    readonly of: string;
    readonly box: Box;
  }
  const faults: string[] = [];
  const pieces: Piece[] = [];
  const frames: Piece[] = [];
  const widths = new Map<string, number>();
  for (const node of nodes) {
    const shape = document.querySelector(`[id="${node.id}"]`);
    const name = node.name || node.type;
    const add = (selector: string, what: string): void => {
      const part = shape.querySelector(selector);
      const box = part && boxOf(part, 1);
      // A debug node that shows its badge only has a button without an extent.
      if (box && box.right > box.left) pieces.push({ what: `${what} ${name}`, of: node.id, box });
    };
    add('.red-ui-flow-node', 'node');
    add('.red-ui-flow-node-button', 'button of');
    if (badges[node.type]) {
      add('.red-ui-flow-node-status-group', 'badge of');
      const badge = pieces.at(-1)?.box;
      widths.set(node.id, badge ? badge.right - badge.left : 0);
    }
  }
  for (const group of document.querySelectorAll('.red-ui-flow-group')) {
    const body = group.querySelector('.red-ui-flow-group-outline');
    const title = group.querySelector('.red-ui-flow-group-label');
    const what = title?.textContent ?? '';
    if (body) frames.push({ what: `frame ${what}`, of: group.id, box: boxOf(body) });
    if (title && what !== '') pieces.push({ what: `title ${what}`, of: group.id, box: boxOf(title, 1) });
  }
  for (const [at, one] of pieces.entries()) {
    if (one.box.left < 0 || one.box.top < 0) faults.push(`${one.what} is cut off`);
    for (const other of pieces.slice(at + 1))
      if (one.of !== other.of && meet(one.box, other.box)) faults.push(`${one.what} meets ${other.what}`);
  }
  for (const [at, one] of frames.entries()) {
    if (one.box.left < 0 || one.box.top < 0) faults.push(`${one.what} is cut off`);
    for (const other of frames.slice(at + 1))
      if (meet(one.box, other.box)) faults.push(`${one.what} meets ${other.what}`);
    for (const piece of pieces) {
      const group = RED.nodes.node(piece.of)?.g;
      if (piece.of === one.of) continue;
      if (group === one.of && !holds(one.box, piece.box)) faults.push(`${piece.what} leaves ${one.what}`);
      if (group !== one.of && meet(one.box, piece.box)) faults.push(`${piece.what} meets ${one.what}`);
    }
  }
  for (const wire of document.querySelectorAll('.red-ui-flow-link-line')) {
    const { source, target } = wire.__data__ ?? {};
    if (!source || !target) continue;
    const hit = new Set<string>();
    const area = boxOf(wire);
    const near = pieces.filter(({ what, of, box }) => {
      const isEnd = what.startsWith('node') && (of === source.id || of === target.id);
      // The area of a straight wire is a line.
      return (
        !isEnd && box.left <= area.right && area.left <= box.right && box.top <= area.bottom && area.top <= box.bottom
      );
    });
    const whole = near.length > 0 ? wire.getTotalLength() : 0;
    for (let length = 0; length < whole; length += 3) {
      const { x, y } = wire.getPointAtLength(length);
      const point = { left: x, right: x, top: y, bottom: y };
      for (const { what, box } of near) if (meet(point, box)) hit.add(what);
    }
    const [from, to] = [source, target].map(({ id }) => RED.nodes.node(id));
    for (const what of hit) faults.push(`wire ${from?.name || from?.type} -> ${to?.name || to?.type} crosses ${what}`);
  }
  const measured = nodes.map(({ id, type, name = '', w, h }) => ({ id, type, name, w, h, badge: widths.get(id) ?? 0 }));
  return { nodes: measured, faults };
}
