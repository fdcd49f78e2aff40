// The lines that a run prints while it runs: what has ended, what runs, and how long it may still take.

/** A line about running jobs is printed after this time without another line. */
const QUIET_SECONDS = 30;

export class Progress {
  #total;
  #left;
  #startedAt = performance.now();
  #ended = 0;
  #running = new Map();
  #expectedDone = 0;
  #reminder;

  /** @param {import('./jobs.mjs').Job[]} jobs */
  constructor(jobs) {
    this.#total = jobs.length;
    this.#left = jobs.reduce((sum, { seconds }) => sum + seconds, 0);
    this.#remind();
  }

  /** Takes the events of `runAll`. */
  tell(event, what) {
    if (event === 'start') this.#running.set(what, performance.now());
    else this.#end(what);
  }

  close() {
    clearTimeout(this.#reminder);
  }

  #end({ job, passed, seconds, output, tests }) {
    this.#running.delete(job);
    this.#ended += 1;
    this.#left -= job.seconds;
    this.#expectedDone += job.seconds;
    const counted = tests.filter(({ isSuite }) => !isSuite);
    const skipped = counted.filter(({ skipped }) => skipped !== undefined).length;
    const facts = [job.on.name, `${counted.length} tests`, skipped > 0 ? `${skipped} skipped` : '', timeOf(seconds)];
    const state = passed ? 'passed' : 'FAILED';
    console.log(`${this.#ended}/${this.#total} ${state} ${job.name} (${facts.filter(Boolean).join(', ')})`);
    if (!passed) console.log(output);
    this.#remind();
  }

  #remind() {
    clearTimeout(this.#reminder);
    this.#reminder = setTimeout(() => {
      const jobs = [...this.#running.keys()].map(({ name, on }) => `${name} on ${on.name}`);
      console.log(`    running: ${jobs.join(', ')}; ${this.#estimate()}`);
      this.#remind();
    }, QUIET_SECONDS * 1000).unref();
  }

  /** Compares the time so far with the table's: the machine may be slower, and several jobs run at once. */
  #estimate() {
    const elapsed = (performance.now() - this.#startedAt) / 1000;
    const begun = [...this.#running].reduce(
      (sum, [{ seconds }, since]) => sum + Math.min(seconds, (performance.now() - since) / 1000),
      0,
    );
    const done = this.#expectedDone + begun;
    if (done <= 0) return 'the first results come soon';
    const left = (elapsed / done) * Math.max(0, this.#left - begun);
    return `about ${timeOf(Math.max(left, 1))} left`;
  }
}

/** Returns seconds as text: `8 s`, or `3 min`. */
export function timeOf(seconds) {
  return seconds < 90 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
}
