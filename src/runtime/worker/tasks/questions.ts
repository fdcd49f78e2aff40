/**
 * Answers questions with parts of their contexts, as Python's library does: an answer is what the context has, in whole words.
 * The pipeline of the JavaScript library joins the tokens of an answer again, in small letters, and lets it have any length.
 */
import type { LibraryTensor } from './library.ts';
import { Spans, type TextPlace } from './spans.ts';

/** Python's limit of an answer. */
const MOST_TOKENS = 15;
/** Two characters of a word. In scripts without spaces, tokens are the words. */
const INSIDE = /^(?:(?!\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Thai})[\p{L}\p{N}\p{M}]){2}$/u;

/** The parts of a pipeline that answers questions. */
export interface Answering {
  readonly tokenizer: {
    (
      questions: readonly string[],
      options: object,
    ): Readonly<Record<'input_ids' | 'attention_mask', { readonly data: BigInt64Array }>>;
    readonly sep_token_id: number;
    decode(ids: readonly bigint[]): string;
  };
  readonly model: (inputs: object) => Promise<Readonly<Record<'start_logits' | 'end_logits', LibraryTensor>>>;
}

/** Tokens of a context, by their places among its tokens, both included. */
interface AnswerTokens {
  readonly first: number;
  readonly last: number;
  readonly score: number;
}

/** @param count most answers to a question, the most likely first */
export async function answersTo(
  { tokenizer, model }: Answering,
  asked: readonly { readonly question: string; readonly context: string }[],
  count: number,
): Promise<object[][]> {
  const inputs = tokenizer(
    asked.map(({ question }) => question),
    { text_pair: asked.map(({ context }) => context), padding: true, truncation: true },
  );
  const { start_logits: starts, end_logits: ends } = await model(inputs);
  const logits = [starts, ends].map(({ data }) => Array.from(data));
  const length = inputs.input_ids.data.length / asked.length;
  return asked.map(({ context }, at) => {
    const own = [at * length, (at + 1) * length] as const;
    const ids = inputs.input_ids.data.subarray(...own);
    const [from, to] = contextIn(ids, inputs.attention_mask.data.subarray(...own), BigInt(tokenizer.sep_token_id));
    const [first, last] = logits.map((all) => likelihoods(all.slice(...own), from, to));
    const tokens = [...ids.subarray(from, to)];
    const spans = new Spans(context);
    const places = tokens.map((id) => spans.next(tokenizer.decode([id])));
    return likeliest(first as number[], last as number[], count).map(({ first, last, score }) => {
      const [{ start } = {}, { end } = {}] = [places[first], places[last]];
      if (start === undefined || end === undefined)
        return { answer: tokenizer.decode(tokens.slice(first, last + 1)), score };
      const place = wholeWords(context, { start, end });
      return { answer: context.slice(place.start, place.end), score, ...place };
    });
  });
}

/** Returns where the tokens of the context begin and end: between separators, of which some models have two in the middle. */
function contextIn(ids: BigInt64Array, mask: BigInt64Array, separator: bigint): readonly [number, number] {
  let from = ids.indexOf(separator) + 1;
  while (ids[from] === separator) from += 1;
  const to = mask.lastIndexOf(1n) + 1;
  return [from, ids[to - 1] === separator ? to - 1 : to];
}

/** Returns the likelihood of each token of the context. The first of all tokens says that there is no answer. */
function likelihoods(logits: readonly number[], from: number, to: number): number[] {
  const [none = 0] = logits;
  const allowed = logits.slice(from, to);
  const most = allowed.reduce((one, other) => Math.max(one, other), none);
  const powers = allowed.map((logit) => Math.exp(logit - most));
  const sum = powers.reduce((all, power) => all + power, Math.exp(none - most));
  return powers.map((power) => power / sum);
}

function likeliest(starts: readonly number[], ends: readonly number[], count: number): AnswerTokens[] {
  const spans = starts.flatMap((start, first) =>
    ends
      .slice(first, first + MOST_TOKENS)
      .map((end, further): AnswerTokens => ({ first, last: first + further, score: start * end })),
  );
  return spans.sort((one, other) => other.score - one.score).slice(0, count);
}

function wholeWords(text: string, { start, end }: TextPlace): TextPlace {
  let [first, last] = [start, end];
  while (INSIDE.test(text.slice(Math.max(0, first - 1), first + 1))) first -= 1;
  while (INSIDE.test(text.slice(last - 1, last + 1))) last += 1;
  return { start: first, end: last };
}
