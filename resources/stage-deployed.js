/**
 * Shows facts about the deployed stage in a stage's dialog: the nodes that get its errors, its route, the endpoints that lead
 * to it, and the nodes that get copies of its output. Adds the button that replaces its workers.
 */
import { isRunning } from './form.js';
import { notify, said } from './sidebar-dom.js';
import { baseName } from './stage-file.js';

const FAILURES = { 0: 'unreachable', 401: 'forbidden', 403: 'forbidden', 404: 'unknown' };

function nameOf(id) {
  const node = RED.nodes.node(id);
  return node ? RED.utils.getNodeLabel(node, id) : id;
}

function namesOf(ids) {
  return ids.map((id) => `"${nameOf(id)}"`).join(', ');
}

function describeHandler(node, handler) {
  if (handler.kind === 'collector' || handler.kind === 'join') {
    return node._(`modelet-stage.handler.${handler.kind}`, { name: handler.name || nameOf(handler.id || '') });
  }
  const tie = handler.tie || [];
  return node._(`modelet-stage.handler.${tie.length ? 'tie' : 'catch'}`, { names: namesOf(tie) });
}

/** One line for each HTTP-in node that leads to the stage. */
function showEndpoints(node, form, endpoints) {
  const lines = endpoints.map(({ method, path, reason }) => {
    const how = node._(`modelet-stage.endpoint.${reason === null ? 'compiled' : 'flow'}`);
    // The catalog must not interpolate what users have named.
    return $('<div>').text(`${method} ${path}: ${how} ${said(reason ?? '')}`.trim());
  });
  form.find('#modelet-stage-endpoints').empty().append(lines);
  form.find('#modelet-stage-endpoints-row').toggle(lines.length > 0);
}

/** Names the nodes that get a copy of each result that the stage passes on inside the engine. */
function showTaps(node, form) {
  $.getJSON('modelets/snapshot').done((answer) => {
    const route = (answer?.routes || []).find(({ entry }) => entry === node.id);
    const taps = route?.taps?.[node.id] || [];
    form.find('#modelet-stage-taps').text(namesOf(taps));
    form.find('#modelet-stage-taps-row').toggle(taps.length > 0);
  });
}

/** Gives the deployed stage new workers, with its deployed settings and not those typed in the dialog. */
function offerRestart(node, form) {
  const button = form.find('#modelet-stage-restart');
  const name = node.name || baseName(node.path) || node._('modelet-stage.stage');
  const tell = (key, kind, values) => {
    notify(node._(`modelet-stage.restart.${key}`, { name, interpolation: { escapeValue: false }, ...values }), kind);
  };
  button.prop('disabled', !RED.user.hasPermission('modelets.write')).on('click', () => {
    button.prop('disabled', true);
    $.ajax({ url: `modelets/stages/${encodeURIComponent(node.id)}/restart`, type: 'POST' })
      .done(() => tell('done', 'success'))
      .fail(({ status }) => tell(FAILURES[status] || 'failed', 'error', { status }))
      .always(() => button.prop('disabled', false));
  });
}

/** `form`: the open dialog. */
export function showDeployedStage(node, form) {
  if (!isRunning(node)) return;
  $.getJSON(`modelets/nodes/${encodeURIComponent(node.id)}`).done((answer) => {
    if (!answer?.handler) return;
    form.find('#modelet-stage-handler').text(describeHandler(node, answer.handler));
    const route = answer.route?.text;
    form.find('#modelet-stage-route').text(said(route || ''));
    form.find('#modelet-stage-route-row').toggle(Boolean(route));
    form.find('#modelet-stage-deployed').show();
    showEndpoints(node, form, answer.endpoints || []);
    showTaps(node, form);
    offerRestart(node, form);
  });
}
