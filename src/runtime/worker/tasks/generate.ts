/** Generates text: the words come as parts while the model says them, and the end tells the whole text and its figures. */
import type { TaskValues } from '../../../config/tasks/task-options.ts';
import { namedOptions } from './calls.ts';
import type { Prompt } from './inputs.ts';
import type { Library, TaskPipeline } from './library.ts';

/** The result that a stage gives behind the parts; clients of OpenAI's API get it in their form. */
export interface Generated {
  readonly text: string;
  readonly finish_reason: 'stop' | 'length';
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number; readonly total_tokens: number };
}

/** @param signal aborts when no caller waits any more; the model then stops after its next token */
export async function* generate(
  { TextStreamer, InterruptableStoppingCriteria }: Library,
  pipeline: TaskPipeline,
  prompt: Prompt,
  options: TaskValues,
  signal: AbortSignal,
): AsyncGenerator<string, Generated> {
  const said: string[] = [];
  const tokens = { prompt: 0, completion: 0 };
  let wake = (): void => {};
  let isOver = false;
  const streamer = new TextStreamer(pipeline.tokenizer, {
    skip_prompt: false,
    callback_function: (text: string) => {
      // The first text is the prompt.
      if (tokens.completion > 0) said.push(text);
      wake();
    },
    token_callback_function: (added: readonly unknown[]) => {
      if (tokens.prompt === 0) tokens.prompt = added.length;
      else tokens.completion += added.length;
    },
  });
  const stopping = new InterruptableStoppingCriteria();
  const stop = (): void => stopping.interrupt();
  signal.addEventListener('abort', stop, { once: true });
  // As in Python: without this, the library leaves out the tokens that a tokenizer puts around each text. A chat has its own.
  const given = { ...sampling(options), add_special_tokens: true, streamer, stopping_criteria: stopping };
  const running = pipeline(prompt, given).finally(() => {
    isOver = true;
    wake();
  });
  // Awaited below, but perhaps not before it has failed.
  running.catch(() => {});
  let text = '';
  try {
    while (!isOver || said.length > 0) {
      const part = said.shift();
      if (part === undefined) {
        await new Promise<void>((resolve) => {
          wake = resolve;
          if (isOver || said.length > 0) resolve();
        });
      } else {
        text += part;
        yield part;
      }
    }
    await running;
  } finally {
    stop();
    signal.removeEventListener('abort', stop);
  }
  const { prompt: prompt_tokens, completion: completion_tokens } = tokens;
  const isCut = completion_tokens >= Number(options['maxTokens']);
  return {
    text,
    finish_reason: isCut ? 'length' : 'stop',
    usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
  };
}

/** Without a temperature, the model always says the likeliest token. */
function sampling(options: TaskValues): object {
  const { temperature, top_p, top_k, ...others } = namedOptions('text-generation', options) as Record<string, unknown>;
  return temperature === 0
    ? { ...others, do_sample: false }
    : { ...others, do_sample: true, temperature, top_p, top_k };
}
