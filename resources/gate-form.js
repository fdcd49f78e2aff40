/** The dialog of a dispatch gate: what its fields do beyond the schema. Attaches `window.modelet.gateForm`. */
import * as form from './form.js';
import { offerPresets } from './gate-presets.js';

const STAGE = 'modelet-stage';
const GATE = 'modelet-gate';
/** How often Prometheus scrapes unless it is told otherwise. */
const USUAL_SCRAPE_MS = 15000;
/** Age from which a sample closes a new gate, by source. */
const STALE_MS = { prometheus: 35000, other: 5000 };
const HOW = ['stage', 'unit', 'costProperty', 'rounding', 'atLeastOne'];
const WAITING = ['store', 'capacity', 'maxAttempts', 'resultTtlMs'];
const TIMING = ['intervalMs', 'lagMs', 'staleMs', 'leaseMs'];

/** When properties have an effect, beside the conditions of the schema. */
const CONDITIONS = {
  tls: (read) =>
    read('url')
      .trim()
      .startsWith(read('source') === 'redis' ? 'rediss:' : 'https:'),
  serversMetric: countsServers,
  // Refusals say by themselves how much is taken at a time, and so do servers whose number is known.
  maxConcurrency: (read) =>
    !(String(read('maxSys')).trim() || read('source') === 'aimd' || countsServers(read) || asksMaxSys(read)),
  // Requests on disk wait, however long the gate is closed.
  capacity: (read) => read('store') === 'durable' || read('whenClosed') === 'wait',
};

function countsServers(read) {
  return read('source') === 'scrape' && Number(read('perServer')) > 0;
}

function asksMaxSys(read) {
  return read('source') === 'prometheus' && String(read('maxSysQuery')).trim() !== '';
}

const isUsed = (read, property) => form.isUsed(GATE, property, read);

// Checks beside those of the schema, called on the node.

/** Blank, or with brackets and quotes that close: the server says the rest, as *Test* does. */
function maxSysQuery(v) {
  const bare = String(v).replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`/g, '');
  const open = [];
  for (const sign of bare.match(/[()[\]{}"'`]/g) || []) {
    const closing = { ')': '(', ']': '[', '}': '{' }[sign];
    if (closing === undefined) open.push(sign);
    else if (open.pop() !== closing) open.push(sign);
  }
  return open.length === 0 || form.fail(this, 'maxSysQuery', 'promql');
}

/** Flows of earlier versions have a list as JSON, and so does its field. */
function idsOf(list) {
  try {
    const ids = Array.isArray(list) ? list : JSON.parse(list);
    return Array.isArray(ids) ? ids.filter((id) => typeof id === 'string') : [];
  } catch (_error) {
    return [];
  }
}

function members(v) {
  const ids = idsOf(v);
  if (ids.length === 0) return form.fail(this, 'members', 'members');
  const unknown = ids.find((id) => id === this.id || RED.nodes.node(id)?.type !== GATE);
  return unknown === undefined || form.fail(this, 'members', 'notGate', { id: unknown });
}

function stage(v) {
  return !v || RED.nodes.node(v)?.type === STAGE || form.fail(this, 'stage', 'gone');
}

function costProperty(v) {
  const isMissing = form.current(this, 'unit') === 'tokens' && String(v).trim() === '';
  return !isMissing || form.fail(this, 'costProperty', 'missing');
}

function maxWindow(v) {
  const min = Number(form.current(this, 'minWindow'));
  return !(Number(v) < min) || form.fail(this, 'maxWindow', 'window', { min });
}

/** Name of the tab or subflow that a node is on; null where it is on the same as the gate. */
function elsewhere(other, node) {
  if (other.z === node.z) return null;
  const tab = RED.nodes.workspace(other.z) || RED.nodes.subflow(other.z);
  return tab ? tab.label || tab.name || tab.id : other.z;
}

function labelOf(other, node) {
  const label = RED.utils.getNodeLabel(other, other.id);
  const tab = elsewhere(other, node);
  return tab === null ? label : `${label} (${tab})`;
}

/** Below a choice: which of the chosen nodes are on other tabs. A gate that was copied without them refers to them. */
function tellElsewhere(node, hint, ids) {
  const others = ids.map((id) => RED.nodes.node(id)).filter((other) => other && other.z !== node.z);
  const nodes = others.map((other) => labelOf(other, node)).join(', ');
  hint.text(others.length === 0 ? '' : node._(`${GATE}.elsewhere`, { nodes }));
}

/** The other nodes of a type on the canvas. */
function nodesOf(type, node) {
  const found = [];
  RED.nodes.eachNode((other) => {
    if (other.type === type && other.id !== node.id) found.push({ id: other.id, label: labelOf(other, node) });
  });
  return found.sort((a, b) => a.label.localeCompare(b.label));
}

/** Adds the chosen nodes that no longer exist, so that users see them. */
function withGone(found, ids, node) {
  const gone = ids.filter((id) => !found.some((other) => other.id === id));
  return found.concat(gone.map((id) => ({ id, label: node._(`${GATE}.gone`, { id }) })));
}

function offerStages(node, select) {
  const chosen = node.stage || '';
  select.append($('<option value="">').text(node._(`${GATE}.nearestStage`)));
  for (const { id, label } of withGone(nodesOf(STAGE, node), chosen ? [chosen] : [], node)) {
    select.append($('<option>').val(id).text(label));
  }
  select.val(chosen);
}

function offerMembers(node, field, list) {
  const chosen = idsOf(node.members ?? []);
  field.val(JSON.stringify(chosen));
  const gates = withGone(nodesOf(GATE, node), chosen, node);
  for (const { id, label } of gates) {
    const box = $('<input type="checkbox">').val(id).prop('checked', chosen.includes(id));
    list.append($('<label class="modelet-choice">').append(box, document.createTextNode(` ${label}`)));
  }
  if (gates.length === 0) list.text(node._(`${GATE}.noGates`));
  list.on('change', (event) => {
    event.stopPropagation();
    const ids = list.find('input:checked').map((_, box) => box.value);
    field.val(JSON.stringify(ids.get())).trigger('change');
  });
}

/** The settings as a sentence: how much the gate admits, when, and where the rest goes. */
function describeRule(node, read) {
  const [kept, maxSys, each] = ['baseline', 'maxSys', 'maxConcurrency'].map((name) => Number(read(name)));
  if (!(kept >= 0 && kept <= 1)) return '';
  if (kept === 1) return node._(`${GATE}.rule.never`);
  const isCounted = isUsed(read, 'maxConcurrency');
  const most = (isCounted ? each : maxSys) * (1 - kept);
  const isKnown = isCounted || String(read('maxSys')).trim() !== '';
  const rest = node._(`${GATE}.rule.${isUsed(read, 'whenClosed') ? read('whenClosed') : 'wait'}`);
  const values = { kept: percentOf(kept), most: Math.round(most * 100) / 100 };
  if (!isKnown || !Number.isFinite(most)) return `${node._(`${GATE}.rule.above`, values)} ${rest}`;
  const unit = node._(`${GATE}.unit.${read('unit')}`);
  return `${node._(`${GATE}.rule.${isCounted ? 'each' : 'given'}`, { ...values, unit })} ${rest}`;
}

function percentOf(share) {
  return Number((share * 100).toFixed(6));
}

/** The saved baseline is a share; people type a percentage. */
function showPercent(element, field) {
  const shown = element.find('#modelet-gate-keep');
  const saved = field('baseline');
  const mark = () => shown.toggleClass('input-error', saved.hasClass('input-error'));
  const read = () => {
    const text = String(saved.val()).trim();
    const share = Number(text);
    shown.val(text === '' || Number.isNaN(share) ? text : percentOf(share));
  };
  shown.on('input change', (event) => {
    event.stopPropagation();
    const text = String(shown.val()).trim();
    const share = Number(text) / 100;
    saved.val(text === '' || Number.isNaN(share) ? text : share).trigger('change');
  });
  // Not while the user types in it.
  saved.on('change', () => {
    if (!shown.is(':focus')) read();
    mark();
  });
  read();
}

/** Fills in the usual age limit of a source's samples, unless the user has changed it. */
function followSource(field) {
  const usual = (source) => STALE_MS[source] || STALE_MS.other;
  let before = field('source').val();
  field('source').on('change', () => {
    const now = field('source').val();
    if (Number(field('staleMs').val()) === usual(before)) field('staleMs').val(usual(now)).trigger('change');
    before = now;
  });
}

function prepare(node) {
  // Kept because Node-RED takes it out of the page while a dialog above it is open.
  const element = $('#modelet-gate-form');
  const field = (property) => element.find(`#node-input-${property}`);
  const read = (property) => field(property).val() ?? '';
  offerStages(node, field('stage'));
  offerMembers(node, field('members'), element.find('#modelet-gate-members'));
  showPercent(element, field);
  const groups = ['settings', 'credentials'].map((name) => element.find(`#modelet-gate-${name}`));
  element.on('change input', () => {
    for (const group of groups) {
      const rows = group.find('[data-row]').get();
      group.toggle(rows.some((row) => isUsed(read, row.dataset.row)));
    }
    element.find('#modelet-gate-rule').text(describeRule(node, read));
    const isShort = read('source') === 'prometheus' && Number(read('staleMs')) <= USUAL_SCRAPE_MS;
    element.find('#modelet-gate-stale-short').toggle(isShort);
    tellElsewhere(node, element.find('#modelet-gate-stage-elsewhere'), [read('stage')]);
    tellElsewhere(node, element.find('#modelet-gate-members-elsewhere'), idsOf(read('members')));
  });
  form.unfoldIfTouched(node, element.find('#modelet-gate-timing'), TIMING);
  form.unfoldIfTouched(node, element.find('#modelet-gate-how'), HOW);
  form.unfoldIfTouched(node, element.find('#modelet-gate-waiting'), WAITING);
  followSource(field);
  const needed = Object.entries(window.modelet.tables[GATE].properties).filter(([, declared]) => declared.needed);
  const isBlank = needed.some(([property]) => isUsed(read, property) && String(read(property)).trim() === '');
  groups[0].prop('open', isBlank);
  // A user who chooses a source sees its fields.
  const deployed = read('source');
  field('source').on('change', () => {
    if (read('source') !== deployed) groups[0].prop('open', true);
  });
  offerPresets(node, element, field, read);
  if (read('source') === 'prometheus' && Number(read('staleMs')) <= USUAL_SCRAPE_MS) {
    element.find('#modelet-gate-timing').prop('open', true);
  }
}

/** Writes what refers to other nodes, which Node-RED writes by itself for config nodes only. */
function save(node) {
  const field = (property) => $(`#node-input-${property}`);
  node.stage = field('stage').val() || '';
  const members = idsOf(field('members').val());
  if (field('source').val() === 'composite') node.members = members;
  // Node-RED would write the text of the field over the list.
  field('members').removeAttr('id');
}

/** Node-RED gives copies the ids of copies in lists only: a composite of an earlier version has text. */
function upgrade(node) {
  if (node.type !== GATE || typeof node.members !== 'string') return;
  const ids = idsOf(node.members);
  if (ids.length > 0) node.members = ids;
}
RED.events.on('nodes:add', upgrade);

window.modelet ??= {};
window.modelet.gateForm = {
  prepare,
  save,
  conditions: CONDITIONS,
  checks: { baseline: 'percent', maxSysQuery, members, stage, costProperty, maxWindow },
};
