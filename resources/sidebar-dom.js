/**
 * Drawing helpers of the sidebar: elements that are made once and updated in place, and curves.
 * Inserts all text as text, never as HTML, because names and errors come from users and their code.
 */

const SVG = 'http://www.w3.org/2000/svg';
/** How much time a curve shows. */
export const SPAN_MS = 60000;

// Only texts of the catalog go through here: what users say must not be interpolated.
export function text(key, values) {
  return RED._(`@modelet/node-red-pipeline/modelet-sidebar:modelet-sidebar.${key}`, values);
}

/** A sentence of Node-RED's half, in the language of the editor. */
export function said(sentence) {
  return window.modelet.said?.(sentence) ?? sentence;
}

/** Returns the key of the text about how often something was restarted. */
export function restartKey({ restarts }) {
  return restarts === 1 ? 'restart' : 'restarts';
}

/** Shows a notification, which Node-RED reads as HTML: names and reasons in it are text. @param options as `RED.notify` takes them */
export function notify(words, options) {
  RED.notify($('<span>').text(words).html(), options);
}

export function el(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = `modelet-sb-${className}`;
  element.append(...children);
  return element;
}

export function icon(name) {
  const element = document.createElement('i');
  element.className = `fa fa-${name}`;
  return element;
}

// Leaves an unchanged text alone, so that nothing flickers and a selection stays.
export function setText(element, value) {
  const wanted = String(value);
  if (element.textContent !== wanted) element.textContent = wanted;
}

export function setTitle(element, value) {
  if (element.title !== value) element.title = value;
}

export function setShown(element, isShown) {
  if (element.hidden === isShown) element.hidden = !isShown;
}

export function setKind(element, kind) {
  if (element.dataset.kind !== kind) element.dataset.kind = kind;
}

export function setStyle(element, property, value) {
  if (element.style[property] !== value) element.style[property] = value;
}

/**
 * Keeps the children of `parent` as a list: `make(item)` gives `{element, update(item)}`, once per key. Returns the
 * function that takes the items.
 */
export function list(parent, keyOf, make) {
  const parts = new Map();
  const partFor = (key, item) => {
    const part = parts.get(key) || make(item);
    parts.set(key, part);
    return part;
  };
  const keepOnly = (keys) => {
    for (const [key, part] of parts) {
      if (keys.has(key)) continue;
      part.element.remove();
      parts.delete(key);
    }
  };
  return (items) => {
    // The last item with a key counts.
    const byKey = new Map(items.map((item) => [keyOf(item), item]));
    keepOnly(byKey);
    let place = parent.firstChild;
    for (const [key, item] of byKey) {
      const { element, update } = partFor(key, item);
      if (element === place) place = place.nextSibling;
      else parent.insertBefore(element, place);
      update(item);
    }
  };
}

export function button(className, iconName, title, onClick) {
  const element = el('button', className, icon(iconName));
  element.type = 'button';
  element.title = title;
  element.setAttribute('aria-label', title);
  element.addEventListener('click', (event) => {
    event.stopPropagation();
    onClick();
  });
  return element;
}

/** A button with words, which look like text. */
export function textButton(className, words, onClick) {
  const element = el('button', className, words);
  element.type = 'button';
  element.addEventListener('click', onClick);
  return element;
}

/** A small button of Node-RED's. */
export function smallButton(className, words, onClick) {
  const element = textButton(className, words, onClick);
  element.classList.add('red-ui-button', 'red-ui-button-small');
  return element;
}

/** A curve of parts of a whole over the last minute; `draw` takes `[{at, part}]` and the time that is now, in ms. */
export function curve() {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('class', 'modelet-sb-curve');
  svg.setAttribute('viewBox', '0 0 600 100');
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('role', 'img');
  const area = document.createElementNS(SVG, 'path');
  area.setAttribute('class', 'modelet-sb-area');
  const line = document.createElementNS(SVG, 'path');
  line.setAttribute('class', 'modelet-sb-line');
  svg.append(area, line);
  const draw = (points, now) => {
    let lines = '';
    let areas = '';
    for (const run of runsOf(points)) {
      const steps = run.map(({ at, part }) => {
        const x = 600 - ((now - at) / SPAN_MS) * 600;
        return `${x.toFixed(1)},${(97 - Math.min(1, part) * 94).toFixed(1)}`;
      });
      const [first, last] = [steps[0].split(',')[0], steps[steps.length - 1].split(',')[0]];
      lines += `M${steps.join('L')}`;
      areas += `M${first},100L${steps.join('L')}L${last},100Z`;
    }
    line.setAttribute('d', lines);
    area.setAttribute('d', areas);
  };
  return { element: svg, draw };
}

// The curve has a gap for times without items, or while the sidebar was hidden.
function runsOf(points) {
  const runs = [];
  let run = [];
  let lastAt = 0;
  for (const point of points) {
    if (point.part === null || point.at - lastAt > 5000) {
      if (run.length) runs.push(run);
      run = [];
    }
    if (point.part !== null) run.push(point);
    lastAt = point.at;
  }
  if (run.length) runs.push(run);
  return runs;
}
