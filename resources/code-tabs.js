/** Shows hidden fields as tabs with code editors, as in the function node. */

// Names that inline code has beside those of a function node; without them the editor underlines each use.
const DECLARATIONS = [
  '/** Value to work on: the message property that the stage reads. An array if Predict runs once per batch. */',
  'declare var input: any;',
  '/** What On Start returned. */',
  'declare var state: any;',
  "/** The JSON of the stage's Init field. */",
  'declare var init: any;',
  "/** The worker that runs the code: its stage's name, its number, its cores and a log. */",
  'declare var ctx: any;',
  'declare function require(name: string): any;',
].join('\n');

// The same for the ace editor, which has no types.
const GLOBALS = { console: true, Buffer: true };
for (const name of ['msg', 'input', 'state', 'init', 'ctx', 'env', 'node', 'require']) GLOBALS[name] = true;

/** `variables`: further names, of anything. A new call takes the place of the one before. */
function declareNames(variables) {
  if (!window.monaco) return null;
  // Node-RED 4.1 and 5.0 bring different versions.
  const language = window.monaco.typescript || window.monaco.languages.typescript;
  const more = variables.map((name) => `declare var ${name}: any;`);
  const lines = [DECLARATIONS, ...more].join('\n');
  return language.javascriptDefaults.addExtraLib(lines, 'file://types/modelet/inline.d.ts');
}

/** The languages of the code, and the dialog that edits each alone. */
const LANGUAGES = {
  javascript: { mode: 'ace/mode/nrjavascript', edit: 'editJavaScript' },
  python: { mode: 'ace/mode/python', edit: 'editText' },
};

/** Members that the editor offers behind a name in Python; those behind a blank one stand alone. */
const OFFERED = {
  '': ['input', 'state', 'init', 'ctx'],
  'ctx.': ['stage', 'worker', 'cpus', 'log', 'metrics', 'progress'],
  'ctx.log.': ['debug', 'info', 'warn', 'error'],
  'ctx.metrics.': ['counter', 'gauge', 'histogram'],
};

/** The editor knows the words of Python only. `isOurs(model)` tells whether it is code of this dialog. */
function completePython(isOurs) {
  if (!window.monaco) return null;
  const { languages } = window.monaco;
  return languages.registerCompletionItemProvider('python', {
    triggerCharacters: ['.'],
    provideCompletionItems(model, { lineNumber, column }) {
      const before = model.getLineContent(lineNumber).slice(0, column - 1);
      const [, path, started] = /((?:\w+\.)*)(\w*)$/.exec(before);
      const place = { startLineNumber: lineNumber, endLineNumber: lineNumber };
      const range = { ...place, startColumn: column - started.length, endColumn: column };
      const kind = languages.CompletionItemKind.Variable;
      const names = isOurs(model) ? (OFFERED[path] ?? []) : [];
      return { suggestions: names.map((label) => ({ label, kind, insertText: label, range })) };
    },
  });
}

function expand(page, options) {
  const { mode, edit } = LANGUAGES[page.language];
  page.editor.saveView();
  RED.editor[edit]({
    value: page.editor.getValue(),
    width: 'Infinity',
    stateId: page.stateId,
    mode,
    focus: true,
    title: options.title(page),
    cancel: () => setTimeout(() => page.editor.focus(), 250),
    complete: (value) => {
      page.editor.setValue(value, -1);
      setTimeout(() => {
        page.editor.restoreView();
        page.editor.focus();
      }, 250);
    },
  });
}

function isMonaco(editor) {
  return Boolean(window.monaco && editor.onDidChangeModel);
}

/** The owner of the marks below, among those of the editor itself. */
const MARKS = 'modelet';

/** Node-RED gives an editor another model whenever it scrolls into sight or out of it: the mark has to follow. */
function underlineInMonaco(editor, row, message) {
  const { MarkerSeverity, editor: monaco } = window.monaco;
  const put = () => {
    const model = editor.getModel();
    if (!model) return;
    const startColumn = model.getLineFirstNonWhitespaceColumn(row) || 1;
    const range = { startLineNumber: row, endLineNumber: row, startColumn, endColumn: model.getLineMaxColumn(row) };
    monaco.setModelMarkers(model, MARKS, [{ ...range, severity: MarkerSeverity.Error, message }]);
  };
  const changes = editor.onDidChangeModel(put);
  put();
  editor.revealLineInCenterIfOutsideViewport(row);
  return () => {
    changes.dispose();
    if (editor.getModel()) monaco.setModelMarkers(editor.getModel(), MARKS, []);
  };
}

function underlineInAce(editor, row, message) {
  const session = editor.getSession();
  const { Range } = window.ace.require('ace/range');
  const place = new Range(row - 1, 0, row - 1, Number.MAX_SAFE_INTEGER);
  const mark = session.addMarker(place, 'modelet-error-line', 'text');
  session.setAnnotations([{ row: row - 1, column: 0, text: message, type: 'error' }]);
  editor.scrollToLine(row - 1, true);
  return () => {
    session.removeMarker(mark);
    session.clearAnnotations();
  };
}

/** Underlines a line, or the last one if there are not as many; gives the function that takes the mark away. */
function underline({ editor }, line, message) {
  const lines = editor.getValue().split('\n').length;
  const row = Math.max(1, Math.min(line, lines));
  if (isMonaco(editor)) return underlineInMonaco(editor, row, message);
  // The plain text editor has no marks.
  return window.ace && editor.getSession().addMarker ? underlineInAce(editor, row, message) : () => {};
}

/**
 * Lets Tab leave a code editor, which else takes it as text: after Escape, and `say` tells so. It listens before the
 * editor does, and any other key takes that back.
 */
function leaveByTab(frame, say) {
  const state = $('<div class="modelet-hint" role="status">').appendTo(frame);
  let isLeaving = false;
  const listen = (event) => {
    if (event.key === 'Tab' && isLeaving) event.stopPropagation();
    // Shift is part of Shift-Tab.
    if (event.key === 'Shift') return;
    isLeaving = event.key === 'Escape';
    state.text(isLeaving ? say : '');
  };
  frame[0].addEventListener('keydown', listen, true);
}

function addPage(container, definition, options) {
  const page = Object.assign({ language: options.language }, definition);
  page.stateId = `${options.node.id}/${page.id}`;
  page.content = $('<div>').attr('id', page.id).hide().appendTo(container);
  const frame = $('<div>').css('position', 'relative').appendTo(page.content);
  page.place = $('<div>').appendTo(frame);
  page.hint = $('<div class="modelet-hint">').appendTo(page.content);
  leaveByTab(frame, options.node._('modelet-stage.leaveByTab'));
  page.field = $(`#node-input-${page.property}`);
  openEditor(page, options, page.field.val() || '');
  const button = $(
    '<button type="button" class="red-ui-button red-ui-button-small"><i class="fa fa-expand"></i></button>',
  );
  $('<div>').css({ position: 'absolute', right: 0, top: '-32px', zIndex: 10 }).append(button).appendTo(frame);
  button.attr('aria-label', RED._('node-red:common.label.expand'));
  RED.popover.tooltip(button, RED._('node-red:common.label.expand'));
  button.on('click', (event) => {
    event.preventDefault();
    expand(page, options);
  });
  return page;
}

/** Makes the editor of a page for its language, and removes the editor before it. */
function openEditor(page, options, value) {
  page.editor?.destroy();
  const height = page.place.find('.node-text-editor').css('height') ?? `${options.height}px`;
  const element = $('<div class="node-text-editor">').attr('id', `${page.id}-editor`).css('height', height);
  page.place.empty().append(element);
  page.editor = RED.editor.createEditor({
    id: `${page.id}-editor`,
    node: { id: options.node.id, type: options.node.type, z: options.node.z },
    mode: LANGUAGES[page.language].mode,
    value,
    stateId: page.stateId,
    globals: Object.assign(Object.fromEntries(options.variables.map((name) => [name, true])), GLOBALS),
  });
  page.editor.getSession().on('change', () => options.onchange(page));
}

/**
 * options: `node`, `language`, `tabs` (id of a ul), `container`, `pages` ([{id, label, property}]), `active` (page id), `height`,
 * `title(page)` of the expanded editor, and `onchange(page)`, called for each page once and whenever its code changes;
 * `page.hint` is an element below the editor. `setup` ({id, label}) is a tab before them, whose element is in the
 * container already, for `variables`: further names that the code has; `declare` changes them, and marks that tab, also
 * for what has no names. `setLanguage` changes the
 * language, with the label of that tab and the code by page. `showError` underlines a line, until code changes or
 * `clearErrors` is called; `goTo` puts the cursor at a place. Call `save` or `destroy` once, when the dialog closes.
 */
export function create(options) {
  let variables = options.variables;
  let needs = variables.length > 0;
  let declared = declareNames(variables);
  let pages = options.pages.map((definition) => addPage(options.container, definition, options));

  const resizeEditors = () => {
    for (const page of pages) page.editor.resize();
  };

  // A small mark shows where code is without opening each tab.
  const mark = () => {
    const show = (id, icon, isShown) => {
      const badge = $(`#red-ui-tab-${id} .red-ui-tabs-badges`).empty();
      if (isShown) $(`<i class="fa ${icon}">`).css('display', 'inline').appendTo(badge);
    };
    for (const page of pages) show(page.id, 'fa-file-code-o', page.editor.getValue().trim() !== '');
    show(options.setup.id, 'fa-cube', needs);
  };

  const tabs = RED.tabs.create({
    id: options.tabs,
    onchange: (tab) => {
      options.container.children().hide();
      $(`#${tab.id}`).show();
      mark();
      resizeEditors();
    },
  });
  tabs.addTab({ id: options.setup.id, label: options.setup.label });
  for (const page of pages) tabs.addTab({ id: page.id, label: page.label });
  tabs.activateTab(options.active);
  for (const page of pages) options.onchange(page);

  const declare = (names, hasMore = false) => {
    if (declared) declared.dispose();
    variables = names;
    needs = hasMore || names.length > 0;
    declared = declareNames(variables);
    mark();
  };

  let unmark = () => {};
  const clearErrors = () => {
    unmark();
    unmark = () => {};
  };
  const clearOnChange = ({ editor }) => editor.getSession().on('change', clearErrors);
  for (const page of pages) clearOnChange(page);

  const setLanguage = (language, label, codes) => {
    clearErrors();
    tabs.renameTab(options.setup.id, label);
    for (const page of pages) {
      page.language = language;
      openEditor(page, options, codes[page.property]);
      clearOnChange(page);
      options.onchange(page);
    }
    mark();
  };
  const isOurs = (model) => pages.some(({ editor }) => isMonaco(editor) && editor.getModel() === model);
  const completion = completePython(isOurs);

  const find = (property) => pages.find((page) => page.property === property);
  const showError = ({ property, line }, message) => {
    tabs.activateTab(find(property).id);
    clearErrors();
    unmark = underline(find(property), line, message);
  };
  const goTo = ({ property, line, column }) => {
    const { id, content, editor } = find(property);
    tabs.activateTab(id);
    content[0].scrollIntoView({ block: 'nearest' });
    editor.focus();
    // Node-RED's own method for monaco counts lines from 0, and that for ace from 1.
    if (isMonaco(editor)) editor.setPosition({ lineNumber: line, column });
    else editor.gotoLine(line, column - 1, false);
  };

  const destroy = () => {
    clearErrors();
    for (const page of pages) page.editor.destroy();
    pages = [];
    if (declared) declared.dispose();
    completion?.dispose();
  };

  const resize = (height) => {
    if (height) options.container.find('.node-text-editor').css('height', `${height}px`);
    tabs.resize();
    resizeEditors();
  };

  const save = () => {
    for (const page of pages) page.field.val(page.editor.getValue());
    destroy();
  };

  return { pages, declare, setLanguage, showError, clearErrors, goTo, resize, save, destroy };
}
