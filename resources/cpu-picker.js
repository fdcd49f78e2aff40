/**
 * CPU pins in the editor: reads their text form, says what is wrong with it, and draws the machine's cores as
 * toggles that compose it. Attaches `window.modelet.cpus`; safe to load more than once.
 *
 * A list (`0,1,2-3,[4,5],-`) has one entry per worker: a core, a range (one entry per core), a group in brackets
 * or `-` for a worker without a pin. A set (`0,2-3`) holds the cores of one process.
 */
(() => {
  'use strict';

  const MAX_CORE = 4095;
  const STYLE = `
    .modelet-cores { display: flex; flex-wrap: wrap; align-items: center; gap: 4px; margin-top: 5px; }
    .modelet-cores .modelet-core { min-width: 30px; font-size: 12px; text-align: center; }
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

  function asText(value) {
    return String(value === undefined || value === null ? '' : value).trim();
  }

  function readRange(token) {
    if (token === '') return { problem: text('problem.empty') };
    const match = /^(\d+)(?:-(\d+))?$/.exec(token);
    if (!match) return { problem: text('problem.unreadable', { token: token }) };
    const first = Number(match[1]);
    const last = match[2] === undefined ? first : Number(match[2]);
    if (last < first) return { problem: text('problem.backwards', { token: token }) };
    if (last > MAX_CORE) return { problem: text('problem.tooHigh', { core: last, max: MAX_CORE }) };
    return { cores: Array.from({ length: last - first + 1 }, (_, index) => first + index) };
  }

  function readSet(source) {
    const cores = new Set();
    for (const part of source.split(',')) {
      const range = readRange(part.trim());
      if (range.problem) return range;
      for (const core of range.cores) cores.add(core);
    }
    return { cores: Array.from(cores) };
  }

  /** One entry as written: it stands for several workers if it is a range. */
  function readEntry(token) {
    if (token === '-') return { pins: [null] };
    const isGroup = /^\[[^[\]]*\]$/.test(token);
    const result = isGroup ? readSet(token.slice(1, -1)) : readRange(token);
    if (result.problem) return result;
    return { pins: isGroup ? [result.cores] : result.cores.map((core) => [core]) };
  }

  /** Entries of a list: arrays of cores, null for a worker without a pin; with a problem, those before it. */
  function parseList(value) {
    const source = asText(value);
    const entries = [];
    if (source === '') return { entries: entries };
    // Commas within brackets do not part entries.
    for (const token of source.split(/,(?![^[]*\])/)) {
      const result = readEntry(token.trim());
      if (result.problem) return { entries: entries, problem: result.problem };
      entries.push(...result.pins);
    }
    return { entries: entries };
  }

  /** The same shape for a set: no entry or one that holds all its cores. */
  function parseSet(value) {
    const source = asText(value);
    if (source === '') return { entries: [] };
    const result = readSet(source);
    return result.problem ? { entries: [], problem: result.problem } : { entries: [result.cores] };
  }

  function parse(value, mode) {
    return mode === 'set' ? parseSet(value) : parseList(value);
  }

  /** `0,1,2,5` as `0-2,5`; two neighbours stay as they are, a range would be no shorter. */
  function formatRun(cores) {
    const parts = [];
    for (let from = 0; from < cores.length; ) {
      let to = from;
      while (to + 1 < cores.length && cores[to + 1] === cores[to] + 1) to += 1;
      if (to - from < 2) to = from;
      parts.push(to === from ? String(cores[from]) : `${cores[from]}-${cores[to]}`);
      from = to + 1;
    }
    return parts.join(',');
  }

  function formatList(entries) {
    const parts = [];
    let singles = [];
    const flush = () => {
      if (singles.length) parts.push(formatRun(singles));
      singles = [];
    };
    for (const entry of entries) {
      if ((entry || []).length === 1) {
        singles.push(entry[0]);
      } else {
        flush();
        parts.push(entry ? `[${entry.join(',')}]` : '-');
      }
    }
    flush();
    return parts.join(',');
  }

  function format(entries, mode) {
    if (mode !== 'set') return formatList(entries);
    const cores = entries.length ? entries[0].slice() : [];
    return formatRun(cores.sort((a, b) => a - b));
  }

  /** What a click on a core makes of the entries: a core in use is taken out, another one is added. */
  function toggle(entries, core, joins) {
    if (holdersOf(entries, core).length) {
      return entries
        .map((entry) => (entry === null ? null : entry.filter((other) => other !== core)))
        .filter((entry) => entry === null || entry.length > 0);
    }
    const last = entries[entries.length - 1];
    if (!joins || !last) return entries.concat([[core]]);
    return entries.slice(0, -1).concat([last.concat([core])]);
  }

  /** Numbers of the workers that are pinned to a core. Workers count from 0, as in their log lines and timings. */
  function holdersOf(entries, core) {
    return Array.from(entries.keys()).filter((worker) => (entries[worker] || []).includes(core));
  }

  /** `true`, or why the text cannot be read. */
  function validate(value, mode) {
    return parse(value, mode).problem || true;
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
   * (field with their number) and `rival` ({input, label}: a set that should not share cores with this one).
   */
  class Picker {
    constructor(options) {
      this.options = options;
      this.isList = options.mode === 'list';
      this.joins = false;
      // {allowed, engine} once the machine has been asked.
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
      });
    }

    parsed() {
      const value = this.options.input.val();
      // What a variable holds is not known here.
      const isVariable = /^\$\{.+\}$|^\$\(.+\)$/.test(asText(value));
      return isVariable ? { entries: [] } : parse(value, this.options.mode);
    }

    compose(entries) {
      this.options.input.val(format(entries, this.options.mode)).trigger('change');
    }

    pick(core, event) {
      const parsed = this.parsed();
      // What cannot be read would be lost without a word.
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
        chip.attr({ title: engine.includes(core) ? `${title} ${text('engine')}` : title, 'aria-pressed': isHeld });
        chip.toggleClass('modelet-on', isHeld).toggleClass('modelet-engine', engine.includes(core));
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
      const theirs = parseSet(rival.input.val()).entries[0] || [];
      const shared = entries[0].filter((core) => theirs.includes(core));
      return shared.length ? [text('rival', { cores: shared.join(', '), who: rival.label })] : [];
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
      const pins = this.options.workers ? pinsOf(entries, Number(this.options.workers.val())) : entries;
      if (this.isList && entries.length) this.note('', '', describeWorkers(pins));
      const overlaps = this.isList ? overlapsOf(pins) : [];
      for (const warning of this.missingWarnings(entries).concat(overlaps, this.rivalWarnings(entries))) {
        this.note('modelet-warning', 'fa-warning', warning);
      }
    }
  }

  if (!document.getElementById('modelet-cpu-style')) {
    $('<style id="modelet-cpu-style">').text(STYLE).appendTo(document.head);
  }
  window.modelet = window.modelet || {};
  window.modelet.cpus = { parse, format, validate, attach: (options) => new Picker(options) };
})();
