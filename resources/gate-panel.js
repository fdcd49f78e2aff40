/**
 * The live parts of a gate's dialog: takes a test reading with the settings in the form, and shows the state of the
 * deployed gate. Attaches `window.modelet.gatePanel`.
 */
import { count } from './figures.js';
import { isRunning } from './form.js';
import { makeGate, orderGate } from './gate-live.js';
import { said } from './sidebar-dom.js';

const INTERVAL_MS = 1000;
const SECRETS = ['token', 'username', 'password'];

/** Returns the form's values as a save would take them, and secrets as Node-RED shows them. */
function settingsOf(node, form) {
  const held = (property) => {
    const field = form.find(`#node-input-${property}`);
    if (field.is(':checkbox')) return field.prop('checked');
    // The selector of config nodes has this value while none is chosen.
    return field.val() === '_ADD_' ? '' : field.val();
  };
  const settings = Object.keys(node._def.defaults).map((property) => [property, held(property)]);
  const credentials = SECRETS.map((name) => [name, held(name)]);
  return { id: node.id, ...Object.fromEntries(settings), credentials: Object.fromEntries(credentials) };
}

/** Returns the answer as a text of the catalog, and the server's own words, which the form shows unchanged. */
function describeReading(node, { ok, sample, reason }, baseline) {
  if (!ok) return { isGood: false, told: node._('modelet-gate.test.failed'), said: said(reason) };
  const budget = Math.min(1, Math.max(0, sample.budget));
  const isOpen = budget - baseline > 1e-9;
  const shares = { free: count(budget * 100), kept: count(baseline * 100) };
  const told = node._(`modelet-gate.test.${isOpen ? 'open' : 'closed'}`, shares);
  return { isGood: isOpen, told, said: said(sample.raw || '') };
}

function offerTest(node, form) {
  const button = form.find('#modelet-gate-test');
  const line = form.find('#modelet-gate-reading');
  const show = ({ isGood, told, said }) => {
    line.empty().append($('<i>').addClass(`fa ${isGood ? 'fa-check modelet-good' : 'fa-times modelet-bad'}`));
    line.append(document.createTextNode(` ${told} `), $('<span class="modelet-path">').text(said));
  };
  const failed = ({ status }) => {
    const known = { 0: 'unreachable', 401: 'forbidden', 403: 'forbidden' };
    return { ok: false, reason: node._(`modelet-gate.test.${known[status] || 'unanswered'}`, { status }) };
  };
  button.prop('disabled', !RED.user.hasPermission('modelets.write')).on('click', () => {
    const settings = settingsOf(node, form);
    const baseline = Number(settings.baseline);
    button.prop('disabled', true);
    line.text(node._('modelet-gate.test.asking'));
    $.ajax({
      url: 'modelets/gates/test',
      method: 'POST',
      contentType: 'application/json',
      data: JSON.stringify(settings),
    })
      .done((answer) => show(describeReading(node, answer, baseline)))
      .fail((xhr) => show(describeReading(node, failed(xhr), baseline)))
      .always(() => button.prop('disabled', false));
  });
}

function watch(node, form) {
  const mayAct = () => RED.user.hasPermission('modelets.write');
  let gate = null;
  const look = () =>
    $.getJSON(`modelets/gates/${encodeURIComponent(node.id)}`).done((view) => {
      const isUsable = view.decisions !== undefined;
      if (isUsable && !gate) {
        gate = makeGate({ mayAct, order: (id, order) => orderGate(id, order).done(look) }, node);
        form.find('#modelet-gate-live').append(gate.element);
      }
      if (isUsable) gate.update(view);
      form.find('#modelet-gate-live').toggle(isUsable);
      form.find('#modelet-gate-invalid').text(said(view.invalid || ''));
      form.find('#modelet-gate-deployed').toggle(isUsable || view.invalid !== undefined);
    });
  look();
  return setInterval(look, INTERVAL_MS);
}

/** The timer of the open dialog: only one gate's dialog can be open. */
let timer = null;

function open(node, form) {
  offerTest(node, form);
  close();
  // Asking without permission would bring up the login.
  if (isRunning(node) && RED.user.hasPermission('modelets.read')) timer = watch(node, form);
}

function close() {
  clearInterval(timer);
  timer = null;
}

window.modelet ??= {};
window.modelet.gatePanel = { open, close };
