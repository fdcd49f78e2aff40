/** Finds the language of a sound with Whisper. Its library takes English where no language is named. */
import { notTaken } from '../media/files.ts';
import type { Library, LibraryTensor, TaskPipeline } from './library.ts';

/** The parts of a pipeline that hears. Models of other kinds than Whisper lack most. */
interface HearingParts {
  readonly processor: {
    (samples: Float32Array): Promise<{ readonly input_features: LibraryTensor }>;
    readonly feature_extractor?: { readonly config: { readonly n_samples?: number } };
  };
  readonly model: {
    (inputs: object): Promise<{ readonly logits: LibraryTensor }>;
    readonly generation_config?: {
      readonly is_multilingual?: boolean;
      readonly decoder_start_token_id?: number;
      /** The numbers of tokens such as `<|de|>`. */
      readonly lang_to_id?: Readonly<Record<string, number>>;
    } | null;
  };
}

/**
 * Returns the code of the language that the model hears in the first 30 s; undefined if it knows one language only.
 * @param named code or name of the language, from the options; '': to be found
 * @throws ModeletError `invalid_input` for the code of a language that the model does not know
 */
export async function languageOf(
  { Tensor }: Library,
  pipeline: TaskPipeline,
  samples: Float32Array,
  named: string,
): Promise<string | undefined> {
  const { model, processor } = pipeline as unknown as HearingParts;
  const { is_multilingual: hasSeveral, decoder_start_token_id: start, lang_to_id: ids } = model.generation_config ?? {};
  if (!hasSeveral || start === undefined || ids === undefined) return;
  const known = Object.entries(ids).map(([token, id]) => ({ code: token.slice(2, -2), id }));
  // A name is longer than a code.
  if (/^.{1,3}$/.test(named) && !known.some(({ code }) => code === named.toLowerCase()))
    throw notTaken(
      `options/language: the model knows no language ${named}; it knows ${known.map(({ code }) => code).join(', ')}`,
    );
  if (named !== '') return;
  const first = samples.subarray(0, processor.feature_extractor?.config.n_samples);
  const { input_features } = await processor(first);
  const decoder_input_ids = new Tensor('int64', BigInt64Array.of(BigInt(start)), [1, 1]);
  const { logits } = await model({ input_features, decoder_input_ids });
  const scoreOf = ({ id }: { readonly id: number }): number => logits.data[id] as number;
  return known.reduce((best, one) => (scoreOf(one) > scoreOf(best) ? one : best)).code;
}
