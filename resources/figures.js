/** Figures of the sidebar and the dashboard, as short texts. A figure that is not known is a dash. */

const NONE = '\u2013';

/** Three digits mean something, more do not. */
function short(value) {
  return String(value >= 100 ? Math.round(value) : Number(value.toPrecision(3)));
}

export function count(value) {
  if (value === null || value === undefined) return NONE;
  if (value >= 999_500) return `${short(value / 1e6)} M`;
  return value >= 9995 ? `${short(value / 1e3)} k` : short(value);
}

export function duration(ms) {
  if (ms === null || ms === undefined) return NONE;
  if (ms < 999.5) return `${short(ms)} ms`;
  return ms < 119_500 ? `${short(ms / 1000)} s` : `${short(ms / 60_000)} min`;
}

export function percent(part) {
  return part === null || part === undefined ? NONE : `${Math.round(part * 100)} %`;
}

export function bytes(value) {
  if (value === null || value === undefined) return NONE;
  return value >= 2 ** 30 ? `${short(value / 2 ** 30)} GB` : `${Math.round(value / 2 ** 20)} MB`;
}
