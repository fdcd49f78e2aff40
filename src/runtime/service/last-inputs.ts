/** Asks the engine for the last input of a stage. Every question is answered, also if the engine dies. */
import { type Clock, systemClock } from '../../core/clock.ts';
import type { Payload } from '../../core/model.ts';
import type { WireItem } from '../../wire/frames/frames.ts';

/** Time for the engine's answer to arrive, in ms. */
const PATIENCE_MS = 2000;

type Tell = (input: Payload | null) => void;

export class LastInputs {
  readonly #ask: (stage: number) => void;
  readonly #clock: Clock;
  /** The callers who wait for an answer, by stage. */
  readonly #waiting: Map<number, Set<Tell>> = new Map();

  /** @param ask sends the question; does nothing if no engine is ready */
  constructor(ask: (stage: number) => void, clock: Clock = systemClock) {
    this.#ask = ask;
    this.#clock = clock;
  }

  /** Resolves with null if the stage has had no input of a reasonable size, or no engine answers. Never rejects. */
  of(stage: number): Promise<Payload | null> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(stage) ?? new Set();
      this.#waiting.set(stage, waiting);
      const timer = this.#clock.at(this.#clock.now() + PATIENCE_MS, () => tell(null));
      const tell: Tell = (input) => {
        timer.cancel();
        waiting.delete(tell);
        resolve(input);
      };
      waiting.add(tell);
      this.#ask(stage);
    });
  }

  /** Takes answers of the engine. */
  take(inputs: readonly WireItem[]): void {
    for (const { stageRef, ok, payload } of inputs) {
      for (const tell of this.#waiting.get(stageRef) ?? []) tell(ok ? payload : null);
      this.#waiting.delete(stageRef);
    }
  }
}
