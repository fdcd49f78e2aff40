/**
 * Finds the places in a text of the words that a model's tokenizer makes of it. The library gives the words alone, perhaps
 * in small letters, without accents and with other spaces.
 */

/** UTF-16 units, as in `text.slice(start, end)`. */
export interface TextPlace {
  readonly start: number;
  readonly end: number;
}

export class Spans {
  #folded = '';
  /** The places in the text of each unit of the folded text. */
  readonly #places: TextPlace[] = [];
  #from = 0;

  constructor(text: string) {
    let start = 0;
    for (const character of text) {
      const end = start + character.length;
      const folded = fold(character);
      this.#folded += folded;
      for (let unit = 0; unit < folded.length; unit += 1) this.#places.push({ start, end });
      start = end;
    }
  }

  /** Returns the next place of words, behind those that were found last; undefined: not found. */
  next(words: string): TextPlace | undefined {
    const folded = fold(words);
    // A part that continues a word bears a mark, which may also be text.
    for (const wanted of [folded, folded.replace(/^##/, '')]) {
      const at = wanted === '' ? -1 : this.#folded.indexOf(wanted, this.#from);
      if (at < 0) continue;
      this.#from = at + wanted.length;
      return this.#span(at, wanted.length);
    }
    return;
  }

  #span(at: number, length: number): TextPlace | undefined {
    const [first, last] = [this.#places[at], this.#places[at + length - 1]];
    return first && last && { start: first.start, end: last.end };
  }
}

/** Returns the text without what tokenizers change: case, accents and spaces. U+FFFD stands for a part of a character. */
function fold(text: string): string {
  return text
    .normalize('NFKD')
    .replace(/[\p{M}\s\uFFFD]/gu, '')
    .toLowerCase();
}
