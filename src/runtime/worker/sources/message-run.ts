/**
 * One run of inline code that has the habits of a function node's: gives it `msg`, `node` and the context stores, and notes
 * what it does with them. Node-RED then does the same with the real message, see src/node-red/request/whole-message.ts.
 */
import {
  type ContextKey,
  type ContextScope,
  type ContextValue,
  isSamePlace,
  type MadeMessage,
  type MessageParts,
  type MessageStep,
  MessageSteps,
  type MessageUse,
} from '../../../core/whole-messages.ts';
import { decodePayload } from '../../../wire/codec/codec.ts';
import { partsOf } from '../batch/replies.ts';
import type { ModeletContext, RequestMeta } from '../modelet/modelet.ts';
import { clone, cloneMessage, getProperty, Kept, setProperty } from './message-tools.ts';

type CodeMessage = Record<string, unknown>;
type Callback = (error: unknown, ...values: unknown[]) => void;

const NO_PARTS: MessageParts = { properties: {}, kept: [], values: [] };

export class MessageRun {
  readonly msg: CodeMessage;
  readonly node: object;
  readonly #use: MessageUse;
  readonly #ctx: ModeletContext;
  readonly #parts: MessageParts;
  /** Whether Node-RED waits for the result. Otherwise, in a test of the stage, the result is a payload. */
  readonly #isOfMessage: boolean;
  readonly #writes: MessageStep[] = [];
  readonly #stores: Map<string, CodeMessage> = new Map();
  #steps: MessageStep[] = [];
  #isOver = false;
  #wake = (): void => {};
  #finish = (): void => {};
  readonly #finished: Promise<void>;

  constructor(use: MessageUse, input: unknown, meta: RequestMeta, ctx: ModeletContext, habits: object) {
    const { message, topic, _msgid } = meta;
    this.#use = use;
    this.#ctx = ctx;
    this.#isOfMessage = message !== undefined;
    this.#parts = message
      ? (decodePayload({ ...message, bytes: Buffer.from(message.bytes, 'base64') }) as MessageParts)
      : NO_PARTS;
    const { properties, kept } = this.#parts;
    this.msg = { ...(topic === undefined ? {} : { topic }), ...properties, payload: input, _msgid };
    for (const name of kept) this.msg[name] = new Kept(name);
    this.#finished = new Promise((resolve) => {
      this.#finish = resolve;
    });
    this.node = Object.assign(habits, {
      send: (messages: unknown) => this.#sendNow(messages),
      status: (status: unknown) => this.#note({ does: 'status', status: clone(status) }),
      error: (error: unknown, message?: unknown) => this.#error(error, message),
      done: () => this.#finish(),
    });
    for (const one of this.#parts.values) setProperty(this.#store(one), one.key, valueIn(one));
  }

  /** Runs the code to its end. Code of a stage with parts gives what it sends as it does. */
  run(start: () => Promise<unknown>): AsyncGenerator<unknown, void> | Promise<unknown> {
    return this.#use.sends && this.#isOfMessage ? this.#inParts(start) : this.#whole(start);
  }

  context(scope: ContextScope): object {
    const at = (key: string, store: unknown): ContextKey => ({
      scope,
      key,
      store: typeof store === 'string' ? store : '',
    });
    const read = (key: string, store: unknown): unknown => this.#read(at(key, store));
    return {
      get: (keys: string | string[], store?: unknown, callback?: unknown) => {
        const then = callbackIn(store, callback);
        const values = [keys].flat().map((key) => read(key, store));
        if (then) then(undefined, ...values);
        return then ? undefined : Array.isArray(keys) ? values : values[0];
      },
      set: (keys: string | string[], values: unknown, store?: unknown, callback?: unknown) => {
        const then = callbackIn(store, callback);
        for (const [index, key] of [keys].flat().entries()) {
          this.#set(at(key, store), Array.isArray(keys) ? (values as unknown[])[index] : values);
        }
        then?.(undefined);
      },
      keys: (store?: unknown, callback?: unknown) => {
        const then = callbackIn(store, callback);
        const keys = Object.keys(this.#store(at('', store)));
        then?.(null, keys);
        return then ? undefined : keys;
      },
      /** The runs of a stage whose code has this take turns, so that none writes in between. */
      update: (key: string, change: (value: unknown) => unknown, store?: unknown) => {
        const value = change(read(key, store));
        this.#set(at(key, store), value);
        return value;
      },
      /** The context then has what all runs have added, whichever ran at the same time. */
      increment: (key: string, by = 1, store?: unknown) => {
        const value = (Number(read(key, store)) || 0) + by;
        setProperty(this.#store(at(key, store)), key, value);
        this.#writes.push({ does: 'increment', by, ...at(key, store) });
        return value;
      },
    };
  }

  #read(key: ContextKey): unknown {
    const isNamed = [...this.#use.keys, ...this.#writes].some(
      (one) => 'key' in one && isSamePlace(one, key) && one.key === key.key,
    );
    if (!isNamed && !this.#use.stores.some((one) => isSamePlace(one, key)))
      throw new Error(`${key.scope}.get: the code does not name the store "${key.store}" as text`);
    const value = propertyOf(this.#store(key), key.key);
    if (value instanceof Kept) throw new Error(`${key.scope}.${value.name} has a value that stays in Node-RED`);
    return value;
  }

  #set(key: ContextKey, value: unknown): void {
    setProperty(this.#store(key), key.key, value);
    this.#writes.push({ does: 'set', value: clone(value), ...key });
  }

  #store({ scope, store }: ContextKey): CodeMessage {
    const name = `${scope} ${store}`;
    const known = this.#stores.get(name) ?? {};
    this.#stores.set(name, known);
    return known;
  }

  async #whole(start: () => Promise<unknown>): Promise<unknown> {
    const returned = await this.#returned(start);
    // Code that forgot its result, or has one in parts.
    if (this.#use.returns === 'value' && (returned === undefined || partsOf(returned))) return returned;
    const steps = this.#end(returned);
    if (this.#isOfMessage) return new MessageSteps(steps);
    const sent = steps.find((step) => step.does === 'send');
    return sent?.outputs.flat()[0]?.properties['payload'] ?? null;
  }

  async *#inParts(start: () => Promise<unknown>): AsyncGenerator<MessageSteps, void> {
    let isRunning = true;
    const running = this.#returned(start).finally(() => {
      isRunning = false;
      this.#wake();
    });
    // It is awaited below, after what the code has sent until then.
    running.catch(() => {});
    while (isRunning) {
      if (this.#steps.length > 0) yield new MessageSteps(this.#steps.splice(0));
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
    yield new MessageSteps(this.#end(await running));
  }

  async #returned(start: () => Promise<unknown>): Promise<unknown> {
    const returned = await start();
    if (this.#use.waits && returned === undefined) await this.#finished;
    return returned;
  }

  /** Returns what is left to do: writes come first, so that who gets the messages sees them. */
  #end(returned: unknown): MessageStep[] {
    this.#isOver = true;
    const outputs = this.#outputsOf(returned);
    const sent: MessageStep[] = outputs.some((messages) => messages.length > 0)
      ? [{ does: 'send', outputs, isLast: true }]
      : [];
    return [...this.#writes, ...this.#steps.splice(0), ...sent];
  }

  #sendNow(messages: unknown): void {
    // The code may change the message before the next turn of the event loop sends it.
    const outputs = this.#outputsOf(messages).map((list) => list.map(copied));
    if (outputs.some((list) => list.length > 0)) this.#note({ does: 'send', outputs, isLast: false });
  }

  #error(error: unknown, message: unknown): void {
    if (!isMessage(message)) {
      this.#ctx.log.error(error);
      return;
    }
    const text = error instanceof Error ? error.message : String(error);
    this.#note({ does: 'error', text, message: copied(this.#made(message)) });
  }

  #note(step: MessageStep): void {
    if (this.#isOver) this.#ctx.log.warn(`node.${step.does} after the end of the run has no effect`);
    else this.#steps.push(step);
    this.#wake();
  }

  /** Returns messages by output, as a function node takes what its code returns or sends. */
  #outputsOf(result: unknown): MadeMessage[][] {
    if (this.#use.returns === 'value' && result !== this.msg) return [[this.#madeOf(result)]];
    if (result === null || result === undefined) return [];
    const byOutput = Array.isArray(result) ? result : [result];
    return byOutput.map((messages: unknown) =>
      [messages].flat().flatMap((message) => {
        if (message === null || message === undefined) return [];
        return [isMessage(message) ? this.#made(message) : this.#madeOf(message)];
      }),
    );
  }

  /** Returns the message that came with another payload. */
  #madeOf(value: unknown): MadeMessage {
    const isWhole = value !== null && typeof value === 'object' && Object.hasOwn(value, 'payload');
    return this.#made(this.msg, isWhole ? (value as CodeMessage)['payload'] : value);
  }

  #made(message: CodeMessage, payload: unknown = message['payload']): MadeMessage {
    const isOriginal = message === this.msg;
    const { properties: before, kept: names } = this.#parts;
    const properties: CodeMessage = {};
    const kept: Record<string, string> = {};
    for (const [name, value] of Object.entries({ ...message, payload })) {
      if (value instanceof Kept) {
        if (!isOriginal || value.name !== name) kept[name] = value.name;
      } else if (value !== undefined && name !== '_msgid' && !(isOriginal && isSame(value, before[name])))
        properties[name] = value;
    }
    const came = isOriginal ? [...Object.keys(before), ...names] : [];
    const removed = came.filter((name) => message[name] === undefined);
    if (isOriginal && payload === undefined) removed.push('payload');
    return { isOriginal, properties, kept, removed };
  }
}

/** Returns undefined also if what should hold the property is not there, as a store does. */
function propertyOf(values: CodeMessage, expression: string): unknown {
  try {
    return getProperty(values, expression);
  } catch (thrown) {
    if (thrown instanceof TypeError) return;
    throw thrown;
  }
}

/** Returns the callback, which may stand in place of the store; undefined: the code wants the value at once. */
function callbackIn(...args: readonly unknown[]): Callback | undefined {
  return args.find((one) => typeof one === 'function') as Callback | undefined;
}

function valueIn(one: ContextValue): unknown {
  return 'value' in one ? one.value : new Kept(one.key);
}

function copied(made: MadeMessage): MadeMessage {
  return { ...made, properties: cloneMessage(made.properties) };
}

function isMessage(value: unknown): value is CodeMessage {
  return value !== null && typeof value === 'object' && !Buffer.isBuffer(value) && !Array.isArray(value);
}

/** Whether a property need not travel back. An object may have changed inside. */
function isSame(value: unknown, before: unknown): boolean {
  return value === before && typeof value !== 'object';
}
