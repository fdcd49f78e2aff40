/** Makes vectors of texts. The pipeline of the library takes several times as long for the mean of the tokens. */
import type { TaskValues } from '../../../config/tasks/task-options.ts';
import { normalized, pool } from '../presets/vectors.ts';
import type { LibraryTensor } from './library.ts';

/** The parts of a pipeline that makes vectors of texts. */
export interface Embedding {
  readonly tokenizer: (texts: readonly string[], options: object) => { readonly attention_mask: LibraryTensor };
  /** Models name their output differently. */
  readonly model: (
    inputs: object,
  ) => Promise<Readonly<Partial<Record<'last_hidden_state' | 'logits' | 'token_embeddings', LibraryTensor>>>>;
}

export async function vectorsOf(
  { tokenizer, model }: Embedding,
  texts: readonly string[],
  { pooling, normalize }: TaskValues,
): Promise<Float32Array[]> {
  const inputs = tokenizer(texts, { padding: true, truncation: true });
  const { last_hidden_state: hidden, logits, token_embeddings: embeddings } = await model(inputs);
  const output = hidden ?? logits ?? embeddings;
  if (!output) throw new Error('the model has no output of vectors');
  return vectorsIn(output, texts.length, pooling, normalize === true, inputs.attention_mask);
}

/** @param mask which parts count; absent: all do */
export function vectorsIn(
  { dims, data }: LibraryTensor,
  count: number,
  pooling: unknown,
  isNormalized: boolean,
  mask?: LibraryTensor,
): Float32Array[] {
  const all = data instanceof Float32Array ? data : Float32Array.from(data);
  const size = all.length / count;
  const [, parts = 1] = dims;
  const counts = mask && Array.from(mask.data);
  return Array.from({ length: count }, (_, at) => {
    const own = counts?.slice(at * parts, (at + 1) * parts);
    const pooled = pool(all.subarray(at * size, (at + 1) * size), dims.slice(1), pooling, own);
    return isNormalized ? normalized(pooled) : pooled;
  });
}
