/** Maps each core to the processes pinned to it. Pure. */

/** A process on the map. */
export interface CpuHolder {
  readonly kind: 'server' | 'engine' | 'worker';
  /** Id of the process's runtime; null for Node-RED. */
  readonly runtime: string | null;
  /** Name of a worker's stage; null for other processes. */
  readonly stage: string | null;
  /** Number of a worker; null for other processes. */
  readonly worker: number | null;
}

/** A process and the cores that it is pinned to (`cpus`); null means that it may use all. */
export type PlacedHolder = CpuHolder & { readonly cpus: readonly number[] | null };

export interface CpuMap {
  /** Cores that this process may use, with the processes pinned to each. Processes on the same core share its time. */
  readonly cores: readonly { readonly core: number; readonly holders: readonly CpuHolder[] }[];
  /** Processes that may use every core. */
  readonly anywhere: readonly CpuHolder[];
}

export function cpuMap(placed: readonly PlacedHolder[], allowed: readonly number[]): CpuMap {
  // A pin to all available cores counts as no pin.
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
