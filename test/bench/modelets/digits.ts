/** The quick start's two steps as one modelet, which does what assets/modelets/digits.py does. */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { repositoryRoot } from '../../fixtures/repository.ts';

interface Classifier {
  setup(): Promise<void>;
  predict(batch: Float32Array[]): unknown[];
}

async function example<T>(name: string): Promise<T> {
  const url = pathToFileURL(join(repositoryRoot, 'assets', 'modelets', name)).href;
  return ((await import(url)) as { default: T }).default;
}

const normalise = await example<(input: unknown) => Float32Array>('normalise.js');
const Classify = await example<new (init: object, ctx: object) => Classifier>('classify.js');

export default class Digits {
  static batch = true;
  readonly #classify: Classifier = new Classify({}, {});

  setup(): Promise<void> {
    return this.#classify.setup();
  }

  preprocess(input: unknown): Float32Array {
    return normalise(input);
  }

  predict(batch: Float32Array[]): unknown[] {
    return this.#classify.predict(batch);
  }
}
