/**
 * Gives a stage a starting point: inline code that fits the way in which it is called, and for a file that does not exist yet
 * a class to copy. It replaces only code that is a starting point itself.
 */

export const CODE = {
  javascript: {
    item: '// input is msg.payload; return the result\nreturn input;',
    batch: '// input is an array, one value per message; return as many results\nreturn input.map((value) => value);',
  },
  python: {
    item: '# input is msg.payload; return the result\nreturn input',
    batch: '# input is a list, one value per message; return as many results\nreturn [value for value in input]',
  },
};
/** The sources whose code is written in the dialog. */
const LANGUAGES = { inline: 'javascript', 'python-code': 'python' };
const FILES = 'resources/@modelet/node-red-pipeline/start/';
const ENDINGS = { file: 'js', python: 'py' };

/** The language of the code in the dialog; undefined for a source that has none there. */
export function languageOf(source) {
  return LANGUAGES[source];
}

/** The label of the tab with what the code needs. */
export function labelOf(node, language) {
  return node._(`modelet-stage.tab.${language === 'python' ? 'packages' : 'modules'}`);
}

/** Whether the code is still the example. */
function isStart(code) {
  return code.trim() === '' || Object.values(CODE).some((codes) => Object.values(codes).includes(code));
}

/** Writes into the code editors when source or call change, not when the dialog opens. Each language keeps its code. */
function followChoices(node, form, tabs) {
  const choices = form.find('#node-input-source, #node-input-predict');
  const chosen = () => choices.get().map((field) => field.value);
  const codes = () => Object.fromEntries(tabs.pages.map(({ property, editor }) => [property, editor.getValue()]));
  const kept = {};
  let [source, predict] = chosen();
  let [{ language }] = tabs.pages;
  const speak = (next) => {
    kept[language] = codes();
    language = next;
    const start = { setup: '', code: CODE[language][predict], teardown: '' };
    tabs.setLanguage(language, labelOf(node, language), kept[language] ?? start);
  };
  choices.on('change', () => {
    const [nowSource, nowPredict] = chosen();
    const hasChanged = nowPredict !== predict || (languageOf(nowSource) && !languageOf(source));
    [source, predict] = [nowSource, nowPredict];
    if (languageOf(source) && languageOf(source) !== language) speak(languageOf(source));
    const { editor } = tabs.pages.find((page) => page.property === 'code');
    const code = CODE[language][predict];
    if (!hasChanged || !code || !isStart(editor.getValue()) || editor.getValue() === code) return;
    editor.setValue(code, -1);
  });
}

/** Shows the class for the chosen source and call. */
function showSample(node, form) {
  const row = form.find('#modelet-stage-sample');
  const text = row.find('pre');
  let shown = '';
  const show = () => {
    const ending = ENDINGS[form.find('#node-input-source').val()];
    const name = `${form.find('#node-input-predict').val()}.${ending}`;
    if (!ending || name === shown) return;
    shown = name;
    $.get({ url: FILES + name, dataType: 'text' }).done((code) => shown === name && text.text(code));
  };
  const copy = row.find('button');
  copy.on('click', (event) => {
    event.preventDefault();
    RED.clipboard.copyText(text.text(), copy, node._('modelet-stage.sample.copied'));
  });
  form.find('#node-input-source, #node-input-predict').on('change', show);
  show();
}

/** `tabs`: those of the code. */
export function attach(node, form, tabs) {
  followChoices(node, form, tabs);
  showSample(node, form);
}
