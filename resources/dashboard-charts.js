/** The charts of the dashboard, by uPlot. All have the same time and cursor, and the marks of deploys and deaths. */

import { clock, text } from './dashboard-words.js';
import { list, setText } from './sidebar-dom.js';

/** Time that charts show, in s: all there is, but no less than the first and no more than the second. */
const SPANS_S = [120, 600];
const HEIGHT = 190;
/** Distances between labels of the time axis, in s. */
const TIME_STEPS = [30, 60, 120, 300];
const WHOLE_STEPS = [1, 2, 5]
  .flatMap((step) => [1, 10, 100, 1000, 10_000, 100_000].map((more) => step * more))
  .sort((a, b) => a - b);
const FONT = '12px system-ui, sans-serif';

/** The value of a colour of the style sheet, which is another in the dark. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** The room that the labels of an axis need, so that none is cut. */
function roomOf(plot, labels, index, cycle) {
  const axis = plot.axes[index];
  if (cycle > 1 || !labels) return axis._size;
  plot.ctx.font = axis.font[0];
  const widths = labels.map((label) => plot.ctx.measureText(label).width / devicePixelRatio);
  return Math.ceil(axis.ticks.size + axis.gap + Math.max(0, ...widths));
}

/** Draws a line through the chart for each mark, with a sign at its top that tells kinds apart without colours. */
function drawMarks(plot, marks) {
  const { ctx, bbox } = plot;
  const scale = devicePixelRatio;
  for (const { time, kind } of marks) {
    const x = Math.round(plot.valToPos(time / 1000, 'x', true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    const isDeploy = kind === 'deploy';
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour(isDeploy ? 'deploy' : 'bad');
    ctx.lineWidth = scale;
    ctx.setLineDash(isDeploy ? [3 * scale, 3 * scale] : []);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.font = `${11 * scale}px system-ui, sans-serif`;
    ctx.textAlign = 'center';
    ctx.fillText(isDeploy ? '\u25b2' : '\u2715', x, bbox.top - 2 * scale);
    ctx.restore();
  }
}

function makeLegend() {
  const element = document.createElement('ul');
  element.className = 'legend';
  const show = list(
    element,
    ({ name }) => name,
    () => {
      const item = document.createElement('li');
      const swatch = document.createElement('span');
      swatch.className = 'swatch';
      const name = document.createElement('span');
      const value = document.createElement('b');
      item.append(swatch, name, value);
      const update = (line) => {
        swatch.style.borderTopColor = colour(line.colour);
        swatch.style.borderTopStyle = line.dash ? (line.dash[0] < 4 ? 'dotted' : 'dashed') : 'solid';
        setText(name, line.name);
        setText(value, line.text);
      };
      return { element: item, update };
    },
  );
  return { element, show };
}

/**
 * A chart.
 * @param key of its title
 * @param format writes a value, on the axis and in the legend
 * @param top the least end of the axis; `isPart`: the axis always ends there; `isWhole`: its labels are whole numbers
 * @param lines returns the lines of a state: `{name, colour, dash?, value}`, where `value` takes a point
 * @param bands pairs of lines with the area between them filled
 */
export function makeChart({ key, format, top, isPart = false, isWhole = false, lines, bands = [] }) {
  const legend = makeLegend();
  const heading = document.createElement('h2');
  heading.textContent = text(`chart.${key}`);
  const moment = document.createElement('span');
  moment.className = 'moment';
  const place = document.createElement('div');
  place.className = 'plot';
  place.setAttribute('role', 'img');
  const element = document.createElement('section');
  element.dataset.chart = key;
  element.append(heading, moment, place, legend.element);

  let plot = null;
  let drawn = '';
  let state = { points: [], marks: [] };
  let present = [];

  function showValues() {
    const index = plot?.cursor.idx ?? null;
    const point = state.points[index ?? state.points.length - 1];
    setText(moment, index === null || !point ? '' : clock(point.time));
    const shown = present.map((line) => ({ ...line, text: point ? format(line.value(point)) : '' }));
    legend.show(shown);
    if (index === null)
      place.setAttribute(
        'aria-label',
        [heading.textContent, ...shown.map((line) => `${line.name} ${line.text}`)].join(', '),
      );
  }

  const steps = isWhole ? { incrs: WHOLE_STEPS } : {};
  const axis = (more) => ({
    stroke: colour('quiet'),
    font: FONT,
    grid: { stroke: colour('grid'), width: 1 },
    ticks: { stroke: colour('grid'), width: 1, size: 5 },
    ...more,
  });

  function build() {
    plot?.destroy();
    plot = new window.uPlot(
      {
        width: place.clientWidth,
        height: HEIGHT,
        padding: [16, null, null, null],
        legend: { show: false },
        cursor: { sync: { key: 'modelets' }, drag: { x: false, y: false }, points: { size: 6 } },
        scales: {
          x: { range: (_, first, last) => [last - Math.min(Math.max(last - first, SPANS_S[0]), SPANS_S[1]), last] },
          y: { range: (_, _least, most) => [0, isPart ? top : Math.max(top, (most ?? 0) * 1.1)] },
        },
        axes: [
          axis({
            size: 28,
            incrs: TIME_STEPS,
            space: 70,
            values: (_, times) => times.map((time) => clock(time * 1000, time % 60 > 0)),
          }),
          axis({ ...steps, size: roomOf, space: 32, values: (_, values) => values.map((value) => format(value)) }),
        ],
        series: [
          {},
          ...present.map(({ colour: name, dash, fill }) => ({
            stroke: colour(name),
            width: 1.75,
            dash,
            fill: fill && colour(fill),
            points: { show: false },
          })),
        ],
        bands: bands.map(({ lines: [upper, lower], fill }) => ({ series: [upper + 1, lower + 1], fill: colour(fill) })),
        hooks: { draw: [(self) => drawMarks(self, state.marks)], setCursor: [showValues] },
      },
      dataOf(),
      place,
    );
  }

  function dataOf() {
    const { points } = state;
    return [points.map(({ time }) => time / 1000), ...present.map(({ value }) => points.map(value))];
  }

  function update(next) {
    state = next;
    present = lines(next);
    const look = JSON.stringify([present, colour('quiet')]);
    if (look !== drawn || !plot) build();
    else plot.setData(dataOf());
    drawn = look;
    showValues();
  }

  new ResizeObserver(() => {
    if (plot && place.clientWidth > 0) plot.setSize({ width: place.clientWidth, height: HEIGHT });
  }).observe(place);
  return { element, update };
}
