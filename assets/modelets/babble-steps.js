/**
 * The toy language model of babble.js, step by step: one step takes `stepMs` and gives each text in progress its next
 * word, as a step of a real model on a GPU takes hardly longer for eight texts than for one. Input: `{prompt, words, seed}`;
 * the same three give the same text as babble.js.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { dice, lastWord, wordAfter } from './babble.js';

export default class BabbleSteps {
  static examples = [{ prompt: 'the', words: 2 }];
  static inputSchema = {
    type: 'object',
    properties: {
      prompt: { type: 'string', maxLength: 1000 },
      words: { type: 'integer', minimum: 1, maximum: 1000 },
      seed: { type: 'integer' },
    },
    additionalProperties: false,
  };
  static outputSchema = { type: 'string' };

  constructor({ stepMs = 20 }) {
    this.stepMs = stepMs;
  }

  async step(sequences) {
    await pause(this.stepMs);
    for (const sequence of sequences) {
      const { prompt, words = 40, seed = 1 } = sequence.input;
      sequence.state ??= { roll: dice(seed), word: lastWord(prompt), made: 0 };
      const text = sequence.state;
      text.word = wordAfter(text.word, text.roll);
      text.made += 1;
      sequence.emit(text.word);
      if (text.made === words) sequence.end();
    }
  }
}
