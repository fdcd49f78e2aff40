/** The badge of a gate: why it is open or closed, and how many wait. */
import type { NodeStatus } from 'node-red';
import type { GateSnapshot } from '../../observe/views/gate-snapshot.ts';
import { headline, LONGEST_BADGE, waiting } from '../../observe/views/words.ts';

/** The warning on an open gate's badge; null: none. */
function gateWarning({ control, source, store }: GateSnapshot): string | null {
  if (store?.warning) return store.warning;
  return source.rare !== null && control === 'auto' ? 'stale before the next scrape' : null;
}

/** @returns a gate's badge: `open, 42 % free, 5 wait`, or `closed: sample 7.2 s old, 5 wait` */
export function gateBadge(gate: GateSnapshot | undefined): NodeStatus | null {
  if (!gate) return null;
  const { open, control, source, store } = gate;
  if (store?.error) return { fill: 'red', shape: 'ring', text: headline(store.error) };
  const dead = store?.dead ? `, ${store.dead} dead` : '';
  const more = `${waiting(gate.waiting)}${dead}`;
  if (!open) {
    if (control === 'auto' && !source.available && source.error === null)
      return { fill: 'grey', shape: 'ring', text: `nothing read yet${more}` };
    const broken = control === 'auto' && !source.available;
    // The dialog says what would open the gate.
    const [cause = ''] = gate.why.split(';', 1);
    return {
      fill: broken ? 'red' : 'yellow',
      shape: 'ring',
      text: `${headline(cause, LONGEST_BADGE - more.length)}${more}`,
    };
  }
  const warning = gateWarning(gate);
  if (warning !== null)
    return { fill: 'yellow', shape: 'dot', text: `${headline(warning, LONGEST_BADGE - more.length)}${more}` };
  const fill = dead !== '' ? 'yellow' : gate.waiting > 0 ? 'blue' : 'green';
  return { fill, shape: 'dot', text: `${openWords(gate)}${more}` };
}

function openWords({ control, budget }: GateSnapshot): string {
  return control === 'open' ? 'open by a message' : `open, ${Math.round(budget * 100)} % free`;
}

/** Prefixes the badge of a gate that counts a stage of another tab: without this fact, the other figures mislead. */
export function withElsewhere(badge: NodeStatus | null, elsewhere: string | null): NodeStatus | null {
  if (!badge || elsewhere === null) return badge;
  return {
    ...badge,
    fill: badge.fill === 'red' ? 'red' : 'yellow',
    text: headline(`counts ${elsewhere}: ${badge.text}`),
  };
}
