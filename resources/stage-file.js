/** Shows facts about the modelet's file in a stage's dialog: its resolved path, and the inputs and outputs of an ONNX model. */

/** Whether a source is a file. */
export function isSource(source) {
  return ['file', 'onnx', 'python'].includes(source);
}

export function baseName(path) {
  return (
    String(path || '')
      .split(/[\\/]/)
      .filter(Boolean)
      .pop() || ''
  );
}

/**
 * Answers may come out of order: calls with that for the path that is still there. A refusal says why as an answer does;
 * without either, `answered` gets the status alone.
 */
function ask(url, field, answered, more = {}) {
  const path = field.val().trim();
  const isCurrent = () => path === field.val().trim();
  $.getJSON(url, { path, ...more })
    .done((answer) => isCurrent() && answered(answer))
    .fail(({ responseJSON, status }) => isCurrent() && answered(responseJSON || null, status));
}

export function describePath(node, line, { path, exists, error }) {
  const isGood = exists && !error;
  const text = error || `${exists ? '' : `${node._('modelet-stage.resolve.missing')} `}${path || ''}`;
  line.empty().append($('<i>').addClass(`fa ${isGood ? 'fa-check modelet-good' : 'fa-times modelet-bad'}`), ' ');
  line
    .append(
      $('<span>')
        .addClass(error ? 'modelet-bad' : 'modelet-path')
        .text(text),
    )
    .show();
}

/** A path that leads to a file says itself where it starts. */
function describeBase(node, line, { base, exists }) {
  line.toggle(!exists && base !== undefined).empty();
  line.append($('<span>').text(`${node._('modelet-stage.files.base')} `), $('<span class="modelet-path">').text(base));
}

function portText(node, side, { name, type, shape }) {
  const dimensions = shape.map((dimension) => (dimension === '' ? '?' : dimension)).join(', ');
  return `${node._(`modelet-stage.ports.${side}`)} ${name}: ${type} [${dimensions}]`;
}

function describeModel(node, line, { error, single, ...ports }) {
  line.empty();
  if (error) line.append($('<div class="modelet-bad">').text(error));
  for (const side of ['inputs', 'outputs']) {
    for (const port of ports[side] || []) line.append($('<div>').text(portText(node, side, port)));
  }
  if (single) line.append($('<div>').text(node._('modelet-stage.ports.single')));
}

/** Shows it in the open dialog `form`, which Node-RED takes out of the page while another is above it. */
export function show(node, form) {
  const source = form.find('#node-input-source').val();
  const field = form.find('#node-input-path');
  const resolved = form.find('#modelet-stage-resolved').empty().hide();
  const sample = form.find('#modelet-stage-sample').show();
  const ports = form.find('#modelet-stage-ports').empty();
  const create = form.find('#modelet-stage-create').hide();
  if (!isSource(source)) return;
  const isBlank = field.val().trim() === '';
  const described = (answer) => {
    // Without an answer (an older runtime half) the lines stay empty.
    if (!answer) return;
    describeBase(node, form.find('#modelet-stage-base'), answer);
    form.find('#modelet-stage-ports-row').toggle(source === 'onnx' && !isBlank && answer.exists);
    if (isBlank) return;
    describePath(node, resolved, answer);
    create.toggle(answer.isCreatable === true);
    // Code to start with is for a file that is yet to be written.
    sample.toggle(!answer.exists);
  };
  ask('modelets/resolve', field, described, { source });
  if (source !== 'onnx' || isBlank) return;
  // Reading them takes a process: this is called when the path has come to rest.
  ports.text(node._('modelet-stage.ports.reading'));
  ask('modelets/onnx', field, (answer, status) => {
    const refused = status === 401 ? { error: node._('modelet-stage.ports.forbidden') } : {};
    describeModel(node, ports, answer || refused);
  });
}
