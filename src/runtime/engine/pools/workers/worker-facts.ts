/** The reports of one process of a worker. Each process begins with new facts. */
import { type InputCheck, inputCheck } from '../../../../config/payload-checks.ts';
import type { StageDefinition } from '../../../../config/stage-definition.ts';
import { asModeletError, type ModeletError } from '../../../../core/errors.ts';
import { counted } from '../../../../core/figures.ts';
import { BYTES_PER_MB, type ModeletDescription, type Payload, type WorkerUsage } from '../../../../core/model.ts';
import type { OwnValues } from '../../../../core/readings.ts';
import { decodePayload } from '../../../../wire/codec/codec.ts';
import type { LoadedReport, UsageReport } from '../../../../wire/frames/bodies.ts';
import type { InputRefusal } from '../pool.ts';

export class WorkerFacts {
  /** Time at which the process was sent its modelet. */
  readonly loadedAt: number;
  /** How far the start is, as the modelet says it. */
  progress: string | null = null;
  /** How long the start took, in ms; 0 until the process is ready. */
  startMs = 0;
  /** Number of batches that the process has answered. */
  batchesRun = 0;
  /** Whether a user has asked for new workers since: the process may run older code. */
  isOutdated = false;
  #loaded: LoadedReport | null = null;
  /** The check of inputs, by the schema that the process leaves to the engine; null if it leaves none. */
  refusalOf: InputRefusal | null = null;
  /** The latest usage report, and the one at the time when the process became ready; null before that. */
  #usage: { readonly first: WorkerUsage; readonly latest: WorkerUsage } | null = null;
  gauges: OwnValues<number> = {};

  constructor(loadedAt: number) {
    this.loadedAt = loadedAt;
  }

  get examples(): number {
    return this.#loaded?.examples ?? 0;
  }

  /** The description of the modelet; null until it is loaded. */
  get description(): ModeletDescription | null {
    return this.#loaded?.description ?? null;
  }

  get usage(): WorkerUsage | null {
    return this.#usage?.latest ?? null;
  }

  /** @throws Error if the schema cannot be used or an example breaks it. */
  noteLoaded(loaded: LoadedReport): void {
    this.#loaded = loaded;
    const { inputSchema, description } = loaded;
    if (inputSchema === undefined) return;
    const check = inputCheck(inputSchema);
    this.refusalOf = (input) => refusalBy(check, input);
    for (const [index, example] of description.examples.entries()) {
      try {
        check(JSON.parse(example), example.length);
      } catch (cause) {
        throw new Error(`the warm-up failed at example ${index}: ${(cause as Error).message}`, { cause });
      }
    }
  }

  noteUsage({ own, ...usage }: UsageReport): void {
    this.#usage = { first: this.#usage?.first ?? usage, latest: usage };
    if (!own) return;
    const changed = Object.entries(own.gauges).map(([metric, series]) => [
      metric,
      { ...this.gauges[metric], ...series },
    ]);
    this.gauges = { ...this.gauges, ...Object.fromEntries(changed) };
  }

  /** Returns the reason for replacing the process, as text, or null. */
  wear({ recycleAfter, maxRssMb }: StageDefinition): string | null {
    if (recycleAfter > 0 && this.batchesRun >= recycleAfter)
      return `it has run ${counted(this.batchesRun, 'batch', 'batches')}`;
    if (this.batchesRun === 0 || !this.#usage) return null;
    const { first, latest } = this.#usage;
    if (!exceeds(latest, maxRssMb) || exceeds(first, maxRssMb)) return null;
    return `it uses ${megabytes(latest)} MB`;
  }

  /** Returns a warning if the new process exceeds its memory limit, which no other would help; otherwise null. */
  tooLargeAtFirst({ maxRssMb }: StageDefinition): string | null {
    if (!this.#usage || this.#usage.latest !== this.#usage.first || !exceeds(this.#usage.first, maxRssMb)) return null;
    return `uses ${megabytes(this.#usage.first)} MB before its first batch, more than its Memory limit of ${maxRssMb} MB, so the stage does not replace it for that`;
  }
}

function refusalBy(check: InputCheck, { codec, bytes }: Payload): ModeletError | null {
  try {
    check(decodePayload({ codec, bytes }), bytes.byteLength);
    return null;
  } catch (thrown) {
    return asModeletError(thrown, 'invalid_input');
  }
}

function exceeds({ rssBytes }: WorkerUsage, maxRssMb: number): boolean {
  return maxRssMb > 0 && rssBytes > maxRssMb * BYTES_PER_MB;
}

function megabytes({ rssBytes }: WorkerUsage): number {
  return Math.round(rssBytes / BYTES_PER_MB);
}
