/** Finds the file of a stage in its dialog: lists the folders for files of flows, and creates a file that is missing. */

const URL = 'modelets/files';

/** The folder of a path as it is typed; blank for a file where relative paths start. */
function folderOf(path) {
  return /[\\/]/.test(path) ? path.replace(/[\\/][^\\/]*$/, '') || '/' : '';
}

/** A line of the list: one button with an icon. */
function entryOf(icon, name, choose) {
  const button = $('<button type="button" class="modelet-entry">').append(
    $('<i aria-hidden="true">').addClass(`fa ${icon}`),
    ' ',
  );
  button.append($('<span>').text(name)).on('click', choose);
  return $('<li>').append(button);
}

/** options: `node`, and `form`, its open dialog. A known model is a folder, any other a file. */
export function attach({ node, form }) {
  browse({ node, form });
  browse({ node, form, property: 'model', ids: ['modelet-stage-browse-model', 'modelet-stage-folders'] });
  attachCreate({ ...asking(node, form), form, field: form.find('#node-input-path') });
}

function asking(node, form) {
  const say = (key, values) => node._(`modelet-stage.files.${key}`, values);
  return { say, source: () => form.find('#node-input-source').val() };
}

/** Puts a button behind the field of a path, which opens a list of the folders below. `ids`: those of button and list. */
export function browse({ node, form, property = 'path', ids = ['modelet-stage-browse', 'modelet-stage-files'] }) {
  const { say, source } = asking(node, form);
  const field = form.find(`#node-input-${property}`);
  // The file that each folder of a known model has stands for the folder.
  const isFolder = property === 'model';
  const [openId, panelId] = ids;
  const list = $('<ul>').attr('aria-label', say('browse'));
  const state = $('<div class="modelet-hint" role="status">');
  const panel = $('<div class="modelet-indented modelet-files" tabindex="-1">').attr('id', panelId).hide();
  panel.append('<div class="modelet-path"></div>', list, state);
  const open = $('<button type="button" class="red-ui-button" aria-expanded="false">')
    .attr({ id: openId, 'aria-controls': panelId, 'aria-label': say('browse'), title: say('browse') })
    .append('<i class="fa fa-folder-open-o" aria-hidden="true"></i>');
  field.after(' ', open, panel);
  /** The last question; answers to earlier ones come too late. */
  let asked = null;

  const close = () => {
    asked = null;
    panel.hide();
    open.attr('aria-expanded', 'false');
  };

  const choose = (path) => {
    close();
    field
      .val(isFolder ? folderOf(path) || '.' : path)
      .trigger('change')
      .trigger('focus');
  };

  const describe = ({ folder, parent, roots, entries, more }) => {
    panel.find('.modelet-path').text(folder);
    const others = parent === null ? roots.filter((root) => root !== folder) : [];
    list.empty().append(
      parent === null ? [] : entryOf('fa-level-up', say('up'), () => look(parent)),
      others.map((root) => entryOf('fa-folder-open-o', root, () => look(root))),
      entries.map(({ name, kind, path }) =>
        kind === 'folder'
          ? entryOf('fa-folder', name, () => look(path))
          : entryOf('fa-file-code-o', name, () => choose(path)),
      ),
    );
    const note = entries.length === 0 ? say('empty') : more > 0 ? say('more', { count: more }) : '';
    state.text(note).removeClass('modelet-bad');
    (list.find('button').get(0) ?? panel.get(0)).focus();
  };

  const fail = ({ status, responseJSON }) => {
    list.empty();
    panel.find('.modelet-path').text('');
    const why = status === 401 ? say('mayNotLook') : (responseJSON?.error ?? say('unreachable'));
    state.text(why).addClass('modelet-bad');
  };

  /** `otherwise`: the folder to list if that must not be listed. */
  const look = (folder, otherwise = folder) => {
    const question = { folder, source: source() };
    asked = question;
    const isCurrent = () => asked === question;
    $.getJSON(URL, question)
      .done((listing) => isCurrent() && describe(listing))
      .fail((response) => {
        if (!isCurrent()) return;
        if (folder !== otherwise && response.responseJSON?.code) look(otherwise);
        else fail(response);
      });
  };

  open.on('click', (event) => {
    event.preventDefault();
    if (asked) return close();
    list.empty();
    panel.show();
    open.attr('aria-expanded', 'true');
    const typed = field.val().trim();
    look(isFolder ? typed : folderOf(typed), '');
  });
  panel.add(open).on('keydown', (event) => {
    if (!asked) return;
    const buttons = list.find('button').get();
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) buttons[buttons.indexOf(document.activeElement) + step]?.focus();
    else if (event.key === 'Escape') {
      close();
      open.trigger('focus');
    } else return;
    event.preventDefault();
  });
  form.find('#node-input-source').on('change', close);
}

/** The button that creates the missing file; stage-file.js shows it. */
function attachCreate({ form, field, source, say }) {
  const button = form.find('#modelet-stage-create');
  const state = form.find('#modelet-stage-created');
  const tell = (text, isGood) => state.text(text).toggleClass('modelet-bad', !isGood);
  field.on('input', () => tell('', true));
  button.on('click', (event) => {
    event.preventDefault();
    const data = { path: field.val().trim(), source: source(), predict: form.find('#node-input-predict').val() };
    $.ajax({ url: URL, method: 'POST', contentType: 'application/json', data: JSON.stringify(data) })
      .done(() => {
        tell(say('created'), true);
        field.trigger('change').trigger('focus');
      })
      .fail(({ status, responseJSON }) => {
        tell(status === 401 ? say('mayNotCreate') : (responseJSON?.error ?? say('unreachable')), false);
      });
  });
}
