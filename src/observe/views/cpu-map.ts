/** Which processes are kept to which cores, core by core. Pure. */

/** A process on the map. */
export interface CpuHolder {
  readonly kind: 'server' | 'engine' | 'worker';
  /** Id of its runtime; null for Node-RED. */
  readonly runtime: string | null;
  /** Of a worker: its stage's name. */
  readonly stage: string | null;
  /** Of a worker: its number. */
  readonly worker: number | null;
}

/** `cpus`: the cores that it is kept to; null: it may use all. */
export type PlacedHolder = CpuHolder & { readonly cpus: readonly number[] | null };

export interface CpuMap {
  /** Cores that this machine grants, and what is kept to each of them. Several on one core share its time. */
  readonly cores: readonly { readonly core: number; readonly holders: readonly CpuHolder[] }[];
  /** Processes that may use every core. */
  readonly anywhere: readonly CpuHolder[];
}

export function cpuMap(placed: readonly PlacedHolder[], allowed: readonly number[]): CpuMap {
  // A pin to all the cores that there are is none.
  const isPinned = ({ cpus }: PlacedHolder): boolean => cpus !== null && !allowed.every((core) => cpus.includes(core));
  const pinned = placed.filter(isPinned);
  return {
    cores: allowed.map((core) => ({ core, holders: pinned.filter(({ cpus }) => cpus?.includes(core)).map(holder) })),
    anywhere: placed.filter((one) => !isPinned(one)).map(holder),
  };
}

function holder({ cpus: _cpus, ...rest }: PlacedHolder): CpuHolder {
  return rest;
}
