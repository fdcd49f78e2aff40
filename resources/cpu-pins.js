/**
 * Writes and changes the text form of CPU pins in the editor; src/config/formats/pins.ts reads it.
 *
 * A list (`0,1,2-3,[4,5],-`) has one entry per worker: a core, a range (one entry per core), a group in brackets
 * or `-` for a worker without a pin. A set (`0,2-3`) holds the cores of one process.
 */

// Both dialogs with a picker share the texts of the stage's catalog.
function text(key, values) {
  return RED._(`@modelet/node-red-pipeline/modelet-stage:modelet-stage.error.${key}`, values);
}

/**
 * Entries of a text: arrays of cores, null for a worker without a pin. A set has one entry with all its cores, or none.
 * With a problem there are no entries.
 */
export function parse(value, mode) {
  const { parseCores, parsePins } = window.modelet.formats;
  try {
    if (mode !== 'set') return { entries: parsePins(value) };
    const cores = parseCores(value);
    return { entries: cores === null ? [] : [cores] };
  } catch ({ reason, values }) {
    return { entries: [], problem: text(reason, values) };
  }
}

/** `0,1,2,5` as `0-2,5`; two neighbours stay as they are, a range would be no shorter. */
export function formatRun(cores) {
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

export function format(entries, mode) {
  if (mode !== 'set') return formatList(entries);
  const cores = entries.length ? entries[0].slice() : [];
  return formatRun(cores.sort((a, b) => a - b));
}

/** Returns the entries after a click on a core: removes a core in use, adds a core that is not. */
export function toggle(entries, core, joins) {
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
export function holdersOf(entries, core) {
  return Array.from(entries.keys()).filter((worker) => (entries[worker] || []).includes(core));
}
