/**
 * A toy language model: writes one word after the other, each as a part of its result. Which word may follow which it
 * has from the few sentences below. Input: `{prompt, words, seed}`; the same three always give the same text.
 */
import { setTimeout as pause } from 'node:timers/promises';

const TEXT = `
  The river is wide and the boat is small . The boat is on the river and the wind is in the west .
  The miller hears the wind and the wheel turns in the river . The wheel is old and the miller is patient .
  A heron stands in the reeds and the reeds move in the wind . The heron hears the wheel and the boat .
  The west is red and the river is red . The miller is on the boat and the heron is patient .`;

/** By word, what follows it in the text, as often as it does. */
const following = new Map();
const words = TEXT.toLowerCase().trim().split(/\s+/);
for (const [index, word] of words.entries()) {
  const next = words[index + 1] ?? words[0];
  following.set(word, [...(following.get(word) ?? []), next]);
}

/** Whole numbers that look random, from 0 to below `limit` (mulberry32). */
export function dice(seed) {
  let state = seed >>> 0;
  return (limit) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  };
}

/** The word from which a text begins. */
export function lastWord(prompt = 'the') {
  return prompt.toLowerCase().trim().split(/\s+/).at(-1);
}

export function wordAfter(word, roll) {
  const choices = following.get(word) ?? words;
  return choices[roll(choices.length)];
}

async function* babble({ prompt, words: count = 40, seed = 1, wordMs = 60 }) {
  const roll = dice(seed);
  let word = lastWord(prompt);
  let made = 0;
  try {
    for (; made < count; made += 1) {
      word = wordAfter(word, roll);
      // A model that thinks.
      await pause(wordMs);
      yield word;
    }
    return { words: made, seed };
  } finally {
    if (made < count) console.log(`stopped after ${made} of ${count} words`);
  }
}

babble.inputSchema = {
  type: 'object',
  properties: {
    prompt: { type: 'string', maxLength: 1000 },
    words: { type: 'integer', minimum: 1, maximum: 1000 },
    seed: { type: 'integer' },
    wordMs: { type: 'integer', minimum: 0, maximum: 1000 },
  },
  additionalProperties: false,
};
babble.outputSchema = { type: 'string' };
babble.examples = [{ prompt: 'the', words: 2, wordMs: 0 }];

export default babble;
