/** The texts and clock times of the dashboard. It is no page of the editor, and reads the catalog of its language itself. */

/** The languages of the catalogs. The first is for all others. */
const LANGUAGES = ['en-US', 'zh-CN'];

let catalog = {};
/** As the editor chose it, else as the browser has it. */
export const language = (localStorage.getItem('editor-language') || navigator.language || '').split('-')[0];

export async function loadTexts() {
  const found = LANGUAGES.find((known) => known.startsWith(`${language}-`)) ?? LANGUAGES[0];
  const response = await fetch(`dashboard/texts/${found}`);
  catalog = (await response.json())['modelet-dashboard'];
  // Without the table the sentences of Node-RED's half stay English.
  await window.modelet.learn(found, 'dashboard/said').catch(() => undefined);
  document.documentElement.lang = found;
  for (const element of document.querySelectorAll('[data-text]')) element.textContent = text(element.dataset.text);
  for (const element of document.querySelectorAll('[data-label]'))
    element.setAttribute('aria-label', text(element.dataset.label));
}

export function text(key, values = {}) {
  const found = key.split('.').reduce((level, part) => level?.[part], catalog) ?? key;
  return found.replace(/__(\w+?)__/g, (_, name) => String(values[name] ?? ''));
}

/** @param ms since 1970 */
export function clock(ms, seconds = true) {
  const parts = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23', ...(seconds ? { second: '2-digit' } : {}) };
  return new Date(ms).toLocaleTimeString(document.documentElement.lang, parts);
}
