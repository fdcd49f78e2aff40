/**
 * Reads, writes and validates the text form of CPU pins in the editor. Attaches `window.modelet.cpuPins`; safe to load
 * more than once.
 *
 * A list (`0,1,2-3,[4,5],-`) has one entry per worker: a core, a range (one entry per core), a group in brackets
 * or `-` for a worker without a pin. A set (`0,2-3`) holds the cores of one process.
 */
(() => {
  'use strict';

  const MAX_CORE = 4095;

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

  /** Returns the entries after a click on a core: without a core that they use, with one that they do not. */
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

  window.modelet = window.modelet || {};
  window.modelet.cpuPins = { asText, parseSet, parse, formatRun, format, toggle, holdersOf, validate };
})();
