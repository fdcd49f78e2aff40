/** The texts and numbers of the dashboard. It is no page of the editor, and reads the catalog of its language itself. */

/** The languages of the catalogs. The first is for all others. */
const LANGUAGES = ['en-US', 'zh-CN'];
const NONE = '\u2013';

let catalog = {};
/** As the editor chose it, else as the browser has it. */
export const language = (localStorage.getItem('editor-language') || navigator.language || '').split('-')[0];

export async function loadTexts() {
  const found = LANGUAGES.find((known) => known.startsWith(`${language}-`)) ?? LANGUAGES[0];
  const response = await fetch(`dashboard/texts/${found}`);
  catalog = (await response.json())['modelet-dashboard'];
  document.documentElement.lang = found;
  for (const element of document.querySelectorAll('[data-text]')) element.textContent = text(element.dataset.text);
  for (const element of document.querySelectorAll('[data-label]'))
    element.setAttribute('aria-label', text(element.dataset.label));
}

export function text(key, values = {}) {
  const found = key.split('.').reduce((level, part) => level?.[part], catalog) ?? key;
  return found.replace(/__(\w+?)__/g, (_, name) => String(values[name] ?? ''));
}

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

/** @param ms since 1970 */
export function clock(ms, seconds = true) {
  const parts = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23', ...(seconds ? { second: '2-digit' } : {}) };
  return new Date(ms).toLocaleTimeString(document.documentElement.lang, parts);
}
