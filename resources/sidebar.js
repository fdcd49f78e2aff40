/**
 * The sidebar tab "modelets", and all that this package adds to the editor itself. Requests the live view from Node-RED only
 * while the tab is visible. Attaches `window.modelet.sidebar`; call `add` once.
 */
import * as convert from './convert.js';
import { openAt } from './form-tabs.js';
import { makeGate, orderGate } from './gate-live.js';
import * as additions from './new-pipeline/additions.js';
import * as newPipeline from './new-pipeline/dialog.js';
import { makePictures } from './pictures.js';
import { makeBlocking } from './sidebar-blocking.js';
import { button, el, list, setShown, setText, setTitle, text, textButton } from './sidebar-dom.js';
import { makeCpus, makeLoop, makeRuntime, makeSlowest } from './sidebar-sections.js';
import { makeFilterBar, Order, only, Selection } from './sidebar-shown.js';
import { makeHistory } from './sidebar-stage.js';
import { makeVerdict } from './sidebar-verdict.js';
import './own-address.js';
import './wiring.js';

const ID = 'modelets';
const INTERVAL_MS = 1000;
const STALE_MS = 5000;
/** Set in the browser once the sidebar has been seen: from then on it never opens by itself. */
const SEEN_KEY = 'modelet-sidebar-seen';
const TUTORIAL = 'https://github.com/modelet/node-red-pipeline/blob/main/docs/tutorial.md';
/** Height of a curve in px: it takes the room that there is. */
const CURVE = { low: 22, high: 80 };

/** Returns the id of the node on the canvas; for one inside a subflow that of the instance. */
function onCanvas(id) {
  const known = [id, id.split('-')[0]].find((candidate) => RED.nodes.node(candidate));
  if (!known) RED.notify(text('gone'), 'warning');
  return known;
}

function reveal(id, selection) {
  const known = onCanvas(id);
  if (!known) return;
  selection.without(() => {
    RED.view.reveal(known);
    RED.view.select(known);
  });
}

/** Opens the dialog of a node at a property. A node inside a subflow has its dialog there. */
function edit(id, property) {
  const node = RED.nodes.node(id) || RED.nodes.node(id.split('-').at(-1));
  if (node) openAt(node, property);
  else RED.notify(text('gone'), 'warning');
}

function act(id, action) {
  $.ajax({ url: `modelets/stages/${encodeURIComponent(id)}/${action}`, method: 'POST' })
    .done(() => RED.notify(text(`act.${action}Done`), 'success'))
    .fail((xhr) => RED.notify(text('act.failed', { status: xhr.status }), 'error'));
}

/** Tells Node-RED that the failures so far have been read. */
function seen() {
  $.ajax({ url: 'modelets/seen', method: 'POST' }).fail((xhr) =>
    RED.notify(text('act.failed', { status: xhr.status }), 'error'),
  );
}

/**
 * Returns the address of the endpoints' page that a browser may open without a login token; null if there is no such page.
 */
function apiAddress(runtimes) {
  const { user, httpNodeRoot } = RED.settings;
  if (!user || user.anonymous) return 'modelets/openapi';
  const shown = runtimes.find(({ id }) => RED.nodes.node(id)?.publicPath);
  if (!shown) return null;
  const parts = [httpNodeRoot || '', RED.nodes.node(shown.id).publicPath].join('/').split('/').filter(Boolean);
  return `/${[...parts, 'openapi'].join('/')}`;
}

function section(key, isOpen, ...content) {
  const summary = el('summary', 'section-head', text(`section.${key}`));
  const element = el('details', 'section', summary, ...content);
  element.open = isOpen;
  return element;
}

/** Returns the only stage or gate that is chosen; null if there are more, or all are shown. */
function aloneIn(chosen) {
  return chosen?.size === 1 ? [...chosen][0] : null;
}

/** Shows the sidebar when the first pipeline is deployed, once in a browser; one whose user has closed it stays closed. */
function openWithFirstPipeline() {
  RED.events.on('deploy', () => {
    if (RED.settings.getLocal(SEEN_KEY) || !RED.user.hasPermission('modelets.read')) return;
    let hasStage = false;
    RED.nodes.eachNode(({ type }) => {
      hasStage ||= type === 'modelet-stage';
    });
    if (!hasStage) return;
    RED.settings.setLocal(SEEN_KEY, 'true');
    if ($('#red-ui-sidebar').is(':visible')) RED.sidebar.show(ID);
  });
}

/** An icon alone tells nothing about what it opens. Node-RED 4 has the name on the tab. */
function labelIcon() {
  const tabButton = document.querySelector(`.red-ui-sidebar-tab-bar button[data-tab-id="${ID}"]`);
  if (tabButton) tabButton.append(el('span', 'tab-label', text('label')));
}

/** The tab that has the other part of the column; null if the sidebar has all of it, as it always does in Node-RED 4. */
function neighbour() {
  const own = document.querySelector(`.red-ui-sidebar-tab-bar button[data-tab-id="${ID}"]`);
  // The upper and the lower part of a column have two groups in a row.
  const groups = [...(own?.closest('.red-ui-sidebar-tab-bar').querySelectorAll('.button-group') ?? [])];
  const other = groups[groups.indexOf(own?.closest('.button-group')) ^ 1];
  return other?.querySelector('button[data-tab-id].selected') ?? null;
}

/** A button that hides the messages below the sidebar, as a click on their icon does, and brings them back. */
function makeHeight() {
  let hidden = null;
  const element = button('height', 'arrows-v', text('height.whole'), () => {
    const tab = neighbour();
    if (tab) {
      hidden = tab.dataset.tabId;
      tab.click();
    } else RED.sidebar.show(hidden);
    update();
    element.focus();
  });
  const update = () => {
    const isShared = neighbour() !== null;
    setShown(element, isShared || hidden !== null);
    setTitle(element, text(isShared ? 'height.whole' : 'height.shared'));
    element.setAttribute('aria-label', element.title);
  };
  update();
  return { element, update };
}

/** Returns the buttons with which a user without a pipeline begins. */
function makeBeginnings() {
  const button = (key, act) => {
    const element = textButton('beginning', text(`empty.${key}`), act);
    element.classList.add('red-ui-button');
    return element;
  };
  return el(
    'div',
    'beginnings',
    button('newPipeline', () => RED.actions.invoke('modelets:new-pipeline')),
    button('examples', () => RED.actions.invoke('core:show-examples-import-dialog')),
    button('tutorial', () => window.open(TUTORIAL, '_blank', 'noopener')),
  );
}

class Sidebar {
  constructor() {
    this.history = makeHistory();
    this.cores = [];
    this.lastAt = 0;
    /** The last view; null until there is one. */
    this.view = null;
    this.order = new Order();
    this.selection = new Selection(() => this.view && this.drawSelected(this.view));
    this.filterBar = makeFilterBar(this.selection);
    this.curveHeight = CURVE.low;
    this.message = el('div', 'message');
    this.beginnings = makeBeginnings();
    this.empty = el('div', 'empty', this.message, this.beginnings);
    this.stale = el('div', 'stale', text('stale'));
    this.height = makeHeight();
    this.runtimes = el('div', 'runtimes');
    const context = {
      reveal: (id) => reveal(id, this.selection),
      edit,
      act,
      seen,
      order: orderGate,
      mayAct: () => RED.user.hasPermission('modelets.write'),
      isAllCores: (cpus) => this.cores.every((core) => cpus.includes(core)),
      history: (id) => this.history.of(id),
    };
    this.parts = [makeVerdict(context), makeCpus(), makeSlowest(), makeLoop()];
    const [verdict, cpus, slowest, loop] = this.parts.map(({ element }) => element);
    const gates = el('div', 'gates');
    this.gates = section('gates', true, gates);
    const rest = [section('slowest', true, loop, slowest), section('cpus', false, cpus)];
    this.api = el('a', 'api', text('api'));
    this.api.target = '_blank';
    this.api.rel = 'noopener';
    this.body = el('div', 'body', verdict, this.filterBar.element, this.runtimes, this.gates, ...rest, this.api);
    this.blocking = makeBlocking(context);
    this.element = el('div', 'root', this.height.element, this.stale, this.blocking.element, this.empty, this.body);
    this.element.append(makePictures(context.reveal));
    this.showRuntimes = list(
      this.runtimes,
      ({ runtime }) => runtime.id,
      () => makeRuntime(context),
    );
    this.showGates = list(
      gates,
      ({ id }) => id,
      (gate) => makeGate(context, gate),
    );
    this.say('connecting');
  }

  show(view) {
    const now = performance.now();
    this.lastAt = now;
    this.cores = view.cpus.cores.map(({ core }) => core);
    this.history.note(
      view.runtimes.flatMap(({ stages }) => stages),
      now,
    );
    setShown(this.stale, false);
    this.height.update();
    this.blocking.update(view);
    if (view.runtimes.length === 0 && view.gates.length === 0 && view.verdict.kind === 'good') {
      this.say('empty.text', true);
      return;
    }
    setShown(this.empty, false);
    setShown(this.body, true);
    const address = apiAddress(view.runtimes);
    setShown(this.api, address !== null);
    if (address !== null) this.api.setAttribute('href', address);
    for (const part of this.parts) part.update(view);
    this.view = this.order.of(view);
    this.draw(this.view);
  }

  /** Brings what is selected into sight: half of the height may belong to the debug messages. */
  drawSelected(view) {
    const isFiltered = this.draw(view);
    this.element.scrollTop = isFiltered ? this.filterBar.element.offsetTop : 0;
  }

  /** Draws what the selection in the editor leaves of the pipelines. Returns whether that is not all. */
  draw(view) {
    const stages = view.runtimes.flatMap((runtime) => runtime.stages);
    const endpoints = view.runtimes.flatMap((runtime) => runtime.endpoints);
    const chosen = this.selection.among({ stages, gates: view.gates, endpoints });
    const { runtimes, gates } = only(view, chosen);
    this.filterBar.update(chosen && { count: chosen.size, all: stages.length + view.gates.length });
    this.showRuntimes(runtimes.map((runtime) => ({ runtime, at: this.lastAt, alone: aloneIn(chosen) })));
    this.showGates(gates);
    setShown(this.gates, gates.length > 0);
    this.fill();
    return chosen !== null;
  }

  /** Gives the curves the height that is left. */
  fill() {
    const curves = this.runtimes.querySelectorAll('.modelet-sb-curve').length;
    const room = this.element.clientHeight - this.body.offsetHeight + curves * this.curveHeight;
    const wanted = Math.floor(Math.max(CURVE.low, Math.min(CURVE.high, room / Math.max(1, curves))));
    if (wanted === this.curveHeight) return;
    this.curveHeight = wanted;
    this.element.style.setProperty('--modelet-sb-curve', `${wanted}px`);
  }

  /** A message in place of the pipelines. */
  say(key, offersBeginnings) {
    setText(this.message, text(key));
    setShown(this.beginnings, offersBeginnings === true);
    setShown(this.empty, true);
    setShown(this.body, false);
    setShown(this.stale, false);
  }

  /** Marks old figures, which stay readable but must not pass for the present ones. */
  checkAge() {
    setShown(this.stale, this.body.hidden === false && performance.now() - this.lastAt > STALE_MS);
  }
}

/** Requests the view once a second while the element and the window are visible. */
class Watch {
  constructor(sidebar) {
    this.sidebar = sidebar;
    this.isInSight = false;
    /** Runs while the sidebar is watched; else null. */
    this.timer = null;
    this.isAsking = false;
    new IntersectionObserver((entries) => {
      this.isInSight = entries[entries.length - 1].isIntersecting;
      this.check();
    }).observe(sidebar.element);
    document.addEventListener('visibilitychange', () => this.check());
  }

  check() {
    const watches = this.isInSight && document.visibilityState === 'visible';
    if (watches && !this.timer) this.start();
    if (!watches && this.timer) this.stop();
  }

  start() {
    // Asking without permission would bring up the login.
    if (!RED.user.hasPermission('modelets.read')) {
      this.sidebar.say('forbidden');
      return;
    }
    RED.settings.setLocal(SEEN_KEY, 'true');
    this.timer = setInterval(() => this.look(), INTERVAL_MS);
    this.look();
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
  }

  look() {
    this.sidebar.checkAge();
    // A slow server gets the next request when it has answered this one.
    if (this.isAsking) return;
    this.isAsking = true;
    $.ajax({ url: 'modelets/view', dataType: 'json', timeout: STALE_MS })
      .done((view) => {
        if (this.timer) this.sidebar.show(view);
      })
      .always(() => {
        this.isAsking = false;
      });
  }
}

function add() {
  const sidebar = new Sidebar();
  RED.sidebar.addTab({
    id: ID,
    label: text('label'),
    name: text('name'),
    iconClass: 'fa fa-tachometer',
    // In Node-RED 4, an icon that stays in sight.
    pinned: true,
    content: $(sidebar.element),
    enableOnEdit: true,
    action: 'modelets:show-sidebar',
  });
  labelIcon();
  openWithFirstPipeline();
  RED.actions.add('modelets:show-sidebar', () => RED.sidebar.show(ID));
  new Watch(sidebar);
  convert.add();
  newPipeline.add();
  additions.add();
}

window.modelet ??= {};
window.modelet.sidebar = { add };
