/**
 * Gives a stage a starting point: inline code that fits the way in which it is called, and for a file that does not exist yet
 * a class to copy. It replaces only code that is a starting point itself. Attaches `window.modelet.stageStart`; safe to load
 * more than once.
 */
(() => {
  'use strict';

  const CODE = {
    item: '// input is msg.payload; return the result\nreturn input;',
    batch: '// input is an array, one value per message; return as many results\nreturn input.map((value) => value);',
  };
  const FILES = 'resources/@modelet/node-red-pipeline/start/';
  const ENDINGS = { file: 'js', python: 'py' };

  /** Whether the code is still the example. */
  function isStart(code) {
    return code.trim() === '' || Object.values(CODE).includes(code);
  }

  /** Writes into the code editor when source or call change, not when the dialog opens. */
  function followChoices(form, page) {
    const choices = form.find('#node-input-source, #node-input-predict');
    const chosen = () => choices.get().map((field) => field.value);
    let [source, predict] = chosen();
    choices.on('change', () => {
      const [nowSource, nowPredict] = chosen();
      const hasChanged = nowPredict !== predict || (nowSource === 'inline' && source !== 'inline');
      [source, predict] = [nowSource, nowPredict];
      const code = CODE[predict];
      if (!hasChanged || !code || !isStart(page.editor.getValue()) || page.editor.getValue() === code) return;
      page.editor.setValue(code, -1);
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

  /** `page`: that of the tab Predict. */
  function attach(node, form, page) {
    followChoices(form, page);
    showSample(node, form);
  }

  window.modelet = window.modelet || {};
  window.modelet.stageStart = { CODE, attach };
})();
