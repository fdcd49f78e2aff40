/**
 * The choices of a whole chat message, gathered from texts and from the deltas of chunks. Texts grow from chunk to chunk,
 * and so do the entries of lists that have the same index, such as the calls of tools.
 */
import { isFields, isObject } from '../../core/objects.ts';

type Delta = Readonly<Record<string, unknown>>;

interface ChatChoice {
  readonly message: Delta;
  readonly finish_reason: unknown;
}

/** Texts that a later chunk repeats, and does not continue. */
const REPEATED: ReadonlySet<string> = new Set(['id', 'name', 'role', 'type']);
const SILENT: ChatChoice = { message: { role: 'assistant', content: '' }, finish_reason: null };

export class ChatChoices {
  readonly #choices: Map<number, ChatChoice> = new Map();
  #length = 0;

  /** Characters of all texts. */
  get length(): number {
    return this.#length;
  }

  /** Takes a chunk, or a text of the first choice. */
  add(value: unknown): void {
    if (!isObject(value)) this.#say(0, { content: value });
    else if (Array.isArray(value['choices'])) {
      for (const [position, choice] of value['choices'].entries()) {
        const { index, delta, finish_reason } = isFields(choice) ? choice : ({} as Delta);
        this.#say(typeof index === 'number' ? index : position, isFields(delta) ? delta : {}, finish_reason);
      }
    }
  }

  /** @param finish why the message ended, whatever its choices say; undefined: they say it */
  whole(finish: unknown): object[] {
    if (this.#choices.size === 0) this.#say(0, {});
    return [...this.#choices]
      .sort(([a], [b]) => a - b)
      .map(([index, { message, finish_reason }]) => {
        const { tool_calls: calls } = message;
        const tools = Array.isArray(calls) ? { tool_calls: calls.map(({ index: _, ...call }) => call) } : {};
        return { index, message: { ...message, ...tools }, finish_reason: finish ?? finish_reason ?? 'stop' };
      });
  }

  #say(index: number, delta: Delta, finish: unknown = null): void {
    const { message, finish_reason } = this.#choices.get(index) ?? SILENT;
    this.#choices.set(index, { message: this.#merged(message, delta), finish_reason: finish ?? finish_reason });
  }

  #merged(known: Delta, more: Delta): Delta {
    const grown = Object.entries(more).map(([name, value]) => [name, this.#grown(known[name], value, name)] as const);
    return { ...known, ...Object.fromEntries(grown) };
  }

  #grown(known: unknown, more: unknown, name = ''): unknown {
    if (more === null || more === undefined) return known;
    if (Array.isArray(more)) return this.#listed(Array.isArray(known) ? known : [], more);
    if (isFields(more)) return this.#merged(isFields(known) ? known : {}, more);
    if (name !== 'content' && typeof more !== 'string') return more;
    const text = String(more);
    this.#length += text.length;
    return typeof known === 'string' && !REPEATED.has(name) ? known + text : text;
  }

  #listed(known: readonly unknown[], more: readonly unknown[]): unknown[] {
    const listed = [...known];
    for (const entry of more) {
      const index = isFields(entry) ? entry['index'] : undefined;
      const at = index === undefined ? -1 : listed.findIndex((one) => isFields(one) && one['index'] === index);
      if (at < 0) listed.push(this.#grown(undefined, entry));
      else listed[at] = this.#grown(listed[at], entry);
    }
    return listed;
  }
}
