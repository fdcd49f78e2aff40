/**
 * The description that the modelet of a stage gives of itself. The host hears each news once: the description, and why
 * batches are not as they should be. A stage may get a batcher, or lose it, while its workers stay, so no worker decides
 * whether to warn.
 */
import { isDeepStrictEqual } from 'node:util';
import type { StageDefinition } from '../../../config/stage-definition.ts';
import type { BatchWarning, ModeletDescription, StageStatus } from '../../../core/model.ts';
import type { StageHost } from '../stage/stage-host.ts';

export class Description {
  readonly #host: Pick<StageHost, 'onDescribed' | 'onLog'>;
  /** The description that the host was last given. */
  #told: ModeletDescription | null = null;
  /** The warning that was last logged. */
  #warned = '';

  constructor(host: Pick<StageHost, 'onDescribed' | 'onLog'>) {
    this.#host = host;
  }

  /** Call after any change of the stage's settings or workers. */
  renew(stage: StageDefinition, description: ModeletDescription | null): void {
    if (description && !isDeepStrictEqual(description, this.#told)) {
      this.#told = description;
      this.#host.onDescribed(stage.ref, description);
    }
    // Each worker may have measured other times, and so have a different text.
    const { text } = batchWarning(stage, description) ?? { text: '' };
    if (text !== '' && text !== this.#warned) this.#host.onLog({ level: 'warn', message: text, stage: stage.name });
    this.#warned = text;
  }
}

/** Returns what users should know of a stage that serves. */
export function warningsOf(
  stage: Pick<StageDefinition, 'batching'>,
  description: ModeletDescription | null,
): Pick<StageStatus, 'batchWarning' | 'instead'> {
  const warning = batchWarning(stage, description);
  return {
    ...(warning ? { batchWarning: warning } : {}),
    ...(description?.instead ? { instead: description.instead } : {}),
  };
}

/** Returns why batches are not as they should be; undefined if they are, or if the stage makes none. */
function batchWarning(
  { batching }: Pick<StageDefinition, 'batching'>,
  description: ModeletDescription | null,
): BatchWarning | undefined {
  return batching.maxBatchSize > 1 ? description?.batching : undefined;
}
