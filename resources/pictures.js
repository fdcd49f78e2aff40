/**
 * The pictures of the nodes "picture preview": below each node on the canvas, and in the sidebar. Asks Node-RED only for
 * pictures that are in sight. A picture is an SVG document, which a browser that shows it as an image runs no script of.
 */
import { el, list, said, setShown, setText, text, textButton } from './sidebar-dom.js';

const TYPE = 'modelet-view';
const SVG = 'http://www.w3.org/2000/svg';
const CHECK_MS = 1000;
/** A little more than Node-RED lets a request wait. */
const TIMEOUT_MS = 30000;
/** Room between a node and its picture, in px; more below a badge. */
const GAP = { bare: 6, badge: 24 };

/** Resolves with the address of a picture that the browser has decoded: else it would flicker. */
async function addressOf(svg) {
  const address = URL.createObjectURL(new Blob([svg], { type: 'image/svg+xml' }));
  const image = new Image();
  image.src = address;
  await image.decode();
  return address;
}

function previews() {
  const found = [];
  RED.nodes.eachNode((node) => {
    if (node.type === TYPE && !node.d) found.push(node);
  });
  return found;
}

/** The width of the picture on the canvas. A node of a flow that was written by hand may lack it. */
function widthOf({ width, _def }) {
  return Number(width === undefined || width === '' ? _def.defaults.width.value : width);
}

/** Draws a picture into the group of its node, and moves it when the node or its badge has changed. */
function place(node, { address, width, height }) {
  const group = document.getElementById(node.id);
  if (!group) return;
  let image = group.querySelector('.modelet-picture');
  const wide = widthOf(node);
  if (!address || !(wide > 0)) {
    image?.remove();
    return;
  }
  if (!image) {
    image = document.createElementNS(SVG, 'image');
    image.setAttribute('class', 'modelet-picture');
    // The canvas stays free for the mouse.
    image.setAttribute('pointer-events', 'none');
    group.append(image);
  }
  const hasBadge = Object.keys(node.status ?? {}).length > 0;
  const wanted = { y: node.h + (hasBadge ? GAP.badge : GAP.bare), width: wide, height: (wide * height) / width };
  for (const [name, value] of Object.entries({ ...wanted, href: address }))
    if (image.getAttribute(name) !== String(value)) image.setAttribute(name, value);
}

/** Returns the figure of a node in the sidebar. */
function makeFigure(reveal, { node }) {
  const name = textButton('picture-name', '', () => reveal(node.id));
  name.title = text('picture.reveal');
  const image = el('img', 'picture');
  const problem = el('div', 'picture-problem');
  const update = ({ node: { name: own }, picture }) => {
    setText(name, own || text('picture.unnamed'));
    image.alt = name.textContent;
    setShown(image, Boolean(picture.address));
    if (picture.address && image.src !== picture.address) image.src = picture.address;
    setText(problem, said(picture.problem ?? ''));
  };
  return { element: el('figure', 'picture-of', name, image, problem), update };
}

class Pictures {
  constructor(reveal) {
    /** By the id of a node: its version with the address and the size of its picture, or with the problem. */
    this.shown = new Map();
    this.request = null;
    /** The nodes that the request asks for, as text. */
    this.asked = '';
    const figures = el('div', 'pictures');
    this.element = el('details', 'section', el('summary', 'section-head', text('section.pictures')), figures);
    this.element.open = true;
    this.showFigures = list(
      figures,
      ({ node }) => node.id,
      (item) => makeFigure(reveal, item),
    );
    setShown(this.element, false);
    for (const event of ['workspace:change', 'nodes:add', 'deploy', 'sidebar:resize'])
      RED.events.on(event, () => setTimeout(() => this.check(), 0));
    document.addEventListener('visibilitychange', () => this.check());
    setInterval(() => this.check(), CHECK_MS);
  }

  /** Asks for what is in sight now, unless the present request does. */
  check() {
    const all = previews();
    this.draw(all);
    const wanted = this.inSight(all).map(({ id }) => id);
    const asked = wanted.join();
    if (asked === this.asked && (this.request || asked === '')) return;
    this.asked = asked;
    this.request?.abort();
    this.request = null;
    if (wanted.length > 0) this.ask(wanted);
  }

  inSight(all) {
    if (all.length === 0 || document.hidden || !RED.user.hasPermission('modelets.read')) return [];
    // A hidden element, and each within it, has no parent to be placed in.
    if (this.element.parentElement.offsetParent !== null && this.element.open) return all;
    return all.filter((node) => node.z === RED.workspaces.active() && widthOf(node) > 0);
  }

  ask(wanted) {
    const seen = Object.fromEntries(wanted.map((id) => [id, this.shown.get(id)?.version ?? null]));
    const data = { seen: JSON.stringify(seen) };
    const request = $.ajax({ url: 'modelets/pictures', data, dataType: 'json', timeout: TIMEOUT_MS });
    this.request = request;
    request.done(async (pictures) => {
      await Promise.all(Object.entries(pictures).map(([id, picture]) => this.take(id, picture)));
      if (this.request !== request) return;
      this.request = null;
      this.check();
    });
    request.fail(() => {
      // The next check asks again.
      if (this.request === request) this.request = null;
    });
  }

  async take(id, { svg, ...picture }) {
    const address = svg ? await addressOf(svg).catch(() => null) : null;
    const before = this.shown.get(id)?.address;
    const problem = svg && !address ? text('picture.broken') : picture.problem;
    this.shown.set(id, { ...picture, address, problem });
    this.draw(previews());
    if (before) URL.revokeObjectURL(before);
  }

  draw(all) {
    const known = all.flatMap((node) => (this.shown.has(node.id) ? { node, picture: this.shown.get(node.id) } : []));
    for (const { node, picture } of known) place(node, picture);
    setShown(this.element, known.length > 0);
    this.showFigures(known);
  }
}

/** @param reveal shows a node on the canvas, by its id */
export function makePictures(reveal) {
  return new Pictures(reveal).element;
}
