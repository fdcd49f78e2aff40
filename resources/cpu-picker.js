/**
 * The picker of CPU pins in the editor: draws the machine's cores as toggles that edit the text form (see cpu-pins.js),
 * and warns about shared cores. Attaches `window.modelet.cpus`.
 */
import { format, formatRun, holdersOf, parse, toggle } from './cpu-pins.js';

const STYLE = `
  .modelet-cores { display: flex; flex-wrap: wrap; align-items: center; gap: 4px; margin-top: 5px; }
  .modelet-cores .modelet-core { min-width: 30px; font-size: 12px; text-align: center; }
  .modelet-cores :is(.modelet-group, .modelet-clear):not(.modelet-on) { color: var(--modelet-quiet) !important; }
  .modelet-cores .modelet-on { font-weight: bold; color: var(--red-ui-primary-text-color) !important;
    background: var(--red-ui-list-item-background-selected) !important;
    border-color: var(--red-ui-list-item-border-selected) !important; }
  .modelet-cores .modelet-engine { text-decoration: underline dotted; }
  .modelet-cores .modelet-gap { width: 8px; }
  .modelet-cpu-notes > div { margin-top: 3px; }
  .modelet-cpu-notes .modelet-warning { color: var(--red-ui-primary-text-color); }
  .modelet-cpu-notes .modelet-warning .fa { color: var(--red-ui-text-color-warning); }
  .modelet-cpu-notes .modelet-error { color: var(--red-ui-text-color-error); }`;

// Both dialogs with a picker share the texts of the stage's catalog.
function text(key, values) {
  return RED._(`@modelet/node-red-pipeline/modelet-stage:modelet-stage.cpu.${key}`, values);
}

/** Returns `{min, max}` of a number of workers; null if it is blank, or cannot be read. */
export function workersOf(value) {
  try {
    return window.modelet.formats.parseWorkers(String(value));
  } catch {
    return null;
  }
}

// Entries are used in turn where a number of workers is given as well.
function pinsOf(entries, workers) {
  if (!(workers >= 1) || !entries.length) return entries;
  return Array.from({ length: workers }, (_, worker) => entries[worker % entries.length]);
}

// Each pair of workers that meets on a core, once.
function overlapsOf(pins) {
  const found = [];
  pins.forEach((pin, a) => {
    pins.slice(a + 1).forEach((other, offset) => {
      const shared = (pin || []).filter((core) => (other || []).includes(core));
      if (shared.length) found.push(text('overlap', { a: a, b: a + offset + 1, cores: shared.join(', ') }));
    });
  });
  return found.length > 4 ? found.slice(0, 4).concat(text('more', { count: found.length - 4 })) : found;
}

function describePin(pin) {
  if (!pin) return text('unpinned');
  return text(pin.length > 1 ? 'cores' : 'core', { core: pin.join(', ') });
}

function describeWorkers(pins) {
  const shown = pins.slice(0, 16).map((pin, worker) => text('worker', { worker: worker, where: describePin(pin) }));
  return shown.join('  ·  ') + (pins.length > shown.length ? '  …' : '');
}

/**
 * The toggles and notes below a text field, which stays what counts.
 * options: `input`; `mode` ('list' or 'set'); `strict` (function: are missing cores an error?); optional `workers`
 * (field with their number), `rival` ({input, label}: a set that should not share cores with this one) and `stage`
 * (id of the stage that the pins are for: workers of others are shown) and `onmachine` (takes the machine's answer).
 */
class Picker {
  constructor(options) {
    this.options = options;
    this.isList = options.mode === 'list';
    this.joins = false;
    // {allowed, engine, workers, memoryMb} once the machine has been asked.
    this.machine = null;
    this.cores = $('<div class="modelet-cores">').hide();
    this.notes = $('<div class="modelet-cpu-notes">');
    options.input.after(this.cores, this.notes);
    const rival = options.rival ? options.rival.input : $();
    options.input
      .add(options.workers || $())
      .add(rival)
      .on('change keyup paste input', () => this.render());
    this.render();
    // Without an answer (an older runtime half, no permission) the text field alone does.
    $.getJSON('modelets/cpus').done((answer) => {
      if (!answer || !Array.isArray(answer.allowed) || !answer.allowed.length) return;
      this.machine = answer;
      this.addControls();
      this.render();
      this.options.onmachine?.(answer);
    });
  }

  parsed() {
    const value = this.options.input.val();
    // The editor does not know the values of variables.
    const isVariable = /^\$\{.+\}$|^\$\(.+\)$/.test(value.trim());
    return isVariable ? { entries: [] } : parse(value, this.options.mode);
  }

  compose(entries) {
    this.options.input.val(format(entries, this.options.mode)).trigger('change');
  }

  pick(core, event) {
    const parsed = this.parsed();
    // A click would silently replace a text that cannot be read.
    if (parsed.problem) return;
    const joins = this.joins || event.shiftKey || event.ctrlKey || event.metaKey;
    this.compose(toggle(parsed.entries, core, joins || !this.isList));
  }

  button(kind, title, content, onClick) {
    const element = $('<button type="button" class="red-ui-button red-ui-button-small">').addClass(kind);
    element.attr('title', title).append(content).on('click', onClick).appendTo(this.cores);
  }

  // Once per dialog. Leaving the text field redraws; a toggle replaced then would lose the click that caused it.
  addControls() {
    const labelled = (icon, label) => [$('<i>').addClass(`fa ${icon}`), document.createTextNode(` ${label}`)];
    for (const core of this.machine.allowed) {
      this.button('modelet-core', '', core, (event) => this.pick(core, event));
    }
    this.cores.children().each((index, chip) => {
      $(chip).data('core', this.machine.allowed[index]);
    });
    $('<span class="modelet-gap">').appendTo(this.cores);
    if (this.isList) {
      this.button('modelet-group', text('groupTip'), labelled('fa-object-group', text('group')), () => {
        this.joins = !this.joins;
        this.render();
      });
    }
    this.button('modelet-clear', text('clearTip'), labelled('fa-times', text('clear')), () => {
      this.joins = false;
      this.compose([]);
    });
    this.cores.show();
  }

  /** Running workers of other stages that are kept to a core. A stage in a subflow runs under the id of an instance. */
  othersOn(core) {
    const { stage } = this.options;
    const running = (stage && this.machine?.workers) || [];
    const isOwn = (worker) => worker.stage === stage || worker.stage.endsWith(`-${stage}`);
    return running
      .filter((worker) => worker.cpus.includes(core) && !isOwn(worker))
      .map(({ name, worker }) => `${name} ${worker}`);
  }

  showCores(entries) {
    const engine = this.isList && this.machine && Array.isArray(this.machine.engine) ? this.machine.engine : [];
    this.cores.find('.modelet-core').each((_, element) => {
      const chip = $(element);
      const core = chip.data('core');
      const holders = holdersOf(entries, core);
      const isHeld = holders.length > 0;
      const title =
        isHeld && this.isList
          ? text('coreOf', { core: core, workers: holders.join(', ') })
          : text('core', { core: core });
      const others = this.othersOn(core);
      const taken = others.length ? [`${text('others')} ${others.join(', ')}`] : [];
      const lines = [engine.includes(core) ? `${title} ${text('engine')}` : title].concat(taken);
      chip
        .attr({ title: lines.join('\n'), 'aria-label': lines.join(', '), 'aria-pressed': isHeld })
        .toggleClass('modelet-on', isHeld);
      chip.toggleClass('modelet-engine', engine.includes(core) || others.length > 0);
    });
    this.cores.find('.modelet-group').attr('aria-pressed', this.joins).toggleClass('modelet-on', this.joins);
  }

  missingWarnings(entries) {
    if (!this.machine) return [];
    const named = new Set(entries.reduce((all, entry) => all.concat(entry || []), []));
    const missing = Array.from(named).filter((core) => !this.machine.allowed.includes(core));
    if (!missing.length) return [];
    const isOne = missing.length === 1;
    const which = text(isOne ? 'core' : 'cores', { core: formatRun(missing.sort((a, b) => a - b)) });
    let effect = this.isList && !isOne ? 'workers' : 'worker';
    if (!this.isList) effect = 'process';
    if (this.options.strict()) effect = 'strict';
    return [text(isOne ? 'missing.one' : 'missing.many', { which: which, effect: text(`missing.${effect}`) })];
  }

  rivalWarnings(entries) {
    const { rival } = this.options;
    if (!rival || !entries.length) return [];
    const theirs = parse(rival.input.val(), 'set').entries[0] || [];
    const shared = entries[0].filter((core) => theirs.includes(core));
    return shared.length ? [text('rival', { cores: shared.join(', '), who: rival.label })] : [];
  }

  otherWarnings(entries) {
    const named = Array.from(new Set(entries.reduce((all, entry) => all.concat(entry || []), [])));
    const shared = named.filter((core) => this.othersOn(core).length > 0);
    const who = Array.from(new Set(shared.flatMap((core) => this.othersOn(core))));
    const shown = who.length > 4 ? `${who.slice(0, 4).join(', ')} \u2026` : who.join(', ');
    // Names are text, and so is the note.
    const values = { cores: shared.join(', '), who: shown, interpolation: { escapeValue: false } };
    return shared.length ? [text('rival', values)] : [];
  }

  note(kind, icon, content) {
    const row = $('<div>').addClass(kind).appendTo(this.notes);
    if (icon) row.append($('<i>').addClass(`fa ${icon}`), ' ');
    row.append(document.createTextNode(content));
  }

  render() {
    const { entries, problem } = this.parsed();
    this.showCores(entries);
    this.notes.empty();
    if (problem) {
      this.note('modelet-error', 'fa-times-circle', problem);
      return;
    }
    const pins = this.options.workers ? pinsOf(entries, workersOf(this.options.workers.val())?.max) : entries;
    if (this.isList && entries.length) this.note('', '', describeWorkers(pins));
    const overlaps = this.isList ? overlapsOf(pins) : [];
    for (const warning of this.missingWarnings(entries).concat(
      overlaps,
      this.rivalWarnings(entries),
      this.otherWarnings(entries),
    )) {
      this.note('modelet-warning', 'fa-warning', warning);
    }
  }
}

$('<style>').text(STYLE).appendTo(document.head);

export function attach(options) {
  return new Picker(options);
}

window.modelet ??= {};
window.modelet.cpus = { attach };
