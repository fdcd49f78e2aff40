/** Sums the counters and histograms that a stage's modelet declares itself, over its workers and their successors. */
import { type HistogramReading, MOST_OWN_SERIES, type OwnMetric, type OwnValues } from '../../core/readings.ts';

type MeterValue = number | HistogramReading;

export class OwnMeter {
  /** Replaced with each report, never changed: a status may be read more often than workers report. */
  #values: OwnValues = {};
  #series = 0;
  #dropped = 0;

  get values(): OwnValues {
    return this.#values;
  }

  /** Number of dropped updates, including those that the workers have dropped. */
  get dropped(): number {
    return this.#dropped;
  }

  /**
   * Adds what the metrics of one worker have gained.
   * @param dropped number of updates that the worker itself has dropped, of which the first was of the metric `droppedAt`
   * @returns the name of the first metric of which anything was dropped, if that happened just now; otherwise null
   */
  add(gained: OwnValues, dropped: number, droppedAt: string | null = null): string | null {
    const isFirst = this.#dropped === 0;
    let full = droppedAt;
    this.#dropped += dropped;
    const values: Record<string, OwnValues[string]> = { ...this.#values };
    for (const [metric, series] of Object.entries(gained)) {
      const known: Record<string, MeterValue> = { ...values[metric] };
      for (const [labels, more] of Object.entries(series)) {
        const present = known[labels];
        if (present !== undefined) known[labels] = sum(present, more);
        else if (this.#series < MOST_OWN_SERIES) {
          this.#series += 1;
          known[labels] = more;
        } else {
          this.#dropped += 1;
          full ??= (JSON.parse(metric) as OwnMetric).name;
        }
      }
      values[metric] = known;
    }
    this.#values = values;
    return isFirst && this.#dropped > 0 ? full : null;
  }
}

/** Adds two values of the same metric. Its key has the bounds, so both histograms have the same. */
function sum(one: MeterValue, other: MeterValue): MeterValue {
  if (typeof one === 'number' || typeof other === 'number') return Number(one) + Number(other);
  return { counts: one.counts.map((count, index) => count + (other.counts[index] ?? 0)), sum: one.sum + other.sum };
}
