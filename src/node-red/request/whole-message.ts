/**
 * The message of a stage whose code has the habits of a function node's: gives the code what it uses of the message and of
 * the context stores, and does with them what the code did in its worker. See src/core/whole-messages.ts.
 */
import type { Node, NodeContext, NodeStatus } from 'node-red';
import { ModeletError } from '../../core/errors.ts';
import type { Payload } from '../../core/model.ts';
import {
  type ContextKey,
  type ContextPlace,
  type ContextValue,
  isSamePlace,
  type MadeMessage,
  type MessageParts,
  type MessageStep,
  type MessageSteps,
  type MessageUse,
} from '../../core/whole-messages.ts';
import { stageAt } from '../../flow/graph.ts';
import { encodePayload } from '../../wire/codec/codec.ts';
import type { DeployedRoute, WholeMessageTerms } from '../deploy/deployment.ts';
import { flowsChanged, type RequestContext } from './context.ts';
import { forgetError, type PipelineMessage, sendFrom, writeValue } from './messages.ts';

/** Properties that the code has anyway, or that belong to the pipeline. */
const APART: ReadonlySet<string> = new Set(['payload', '_msgid', 'modelet']);
/** Properties that cannot leave Node-RED. */
const OF_CLIENT: readonly string[] = ['req', 'res'];

interface EncodedParts {
  readonly codec: number;
  /** Base64. */
  readonly bytes: string;
}

export class WholeMessage {
  readonly #context: RequestContext;
  readonly #deployed: DeployedRoute;
  readonly #terms: WholeMessageTerms;
  readonly #msg: PipelineMessage;
  /** Whether something gets a message of this request. */
  hasSent = false;

  constructor(context: RequestContext, deployed: DeployedRoute, terms: WholeMessageTerms, msg: PipelineMessage) {
    this.#context = context;
    this.#deployed = deployed;
    this.#terms = terms;
    this.#msg = msg;
  }

  /** Returns what the code uses besides the payload, for the metadata of the request. @throws ModeletError */
  parts(maxBytes: number): EncodedParts {
    return this.#terms.costs.sent(() => this.#parts(maxBytes));
  }

  #parts(maxBytes: number): EncodedParts {
    const values = this.#keys().flatMap((key): ContextValue[] => {
      const value: unknown = contextOf(this.#node, key).get(key.key, key.store || undefined);
      if (typeof value === 'function') return [{ ...key, stays: true }];
      return value === undefined ? [] : [{ ...key, value }];
    });
    const kept: string[] = [];
    const properties: Record<string, unknown> = {};
    for (const name of this.#terms.use.properties ?? Object.keys(this.#msg)) {
      const value = this.#msg[name as keyof PipelineMessage] as unknown;
      if (value === undefined || APART.has(name)) continue;
      if (OF_CLIENT.includes(name)) kept.push(name);
      else properties[name] = value;
    }
    const { codec, bytes } = this.#encoded({ properties, kept, values }, maxBytes);
    return { codec, bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64') };
  }

  /** Returns the keys that the code names, and all of those stores whose keys it makes. */
  #keys(): ContextKey[] {
    const { keys, stores } = this.#terms.use;
    const isWhole = (key: ContextKey): boolean => stores.some((one) => isSamePlace(one, key));
    const ofStores = stores.flatMap((at) =>
      contextOf(this.#node, at)
        .keys(at.store || undefined)
        .map((key) => ({ ...at, key })),
    );
    return [...keys.filter((key) => !isWhole(key)), ...ofStores];
  }

  #encoded(parts: MessageParts, maxBytes: number): Payload {
    const options = { blame: 'invalid_input', maxBytes } as const;
    try {
      return encodePayload(parts, options);
    } catch (thrown) {
      if (thrown instanceof ModeletError && thrown.code === 'payload_too_large') throw thrown;
      const entries = Object.entries(parts.properties);
      const own = entries.filter(([, value]) => canLeave(value, maxBytes));
      const kept = [...parts.kept, ...entries.filter((entry) => !own.includes(entry)).map(([name]) => name)];
      const values = parts.values.map((one): ContextValue => {
        if (!('value' in one) || canLeave(one.value, maxBytes)) return one;
        const { value: _value, ...key } = one;
        return { ...key, stays: true };
      });
      return encodePayload({ properties: Object.fromEntries(own), kept, values }, options);
    }
  }

  /**
   * Does what the code did. Returns false if the result is a plain one.
   * @param bytes of the result as it came
   * @throws what keeps it from being done
   */
  apply(result: unknown, bytes: number): boolean {
    const all = messageStepsIn(result, this.#terms.use);
    if (!all) return false;
    this.#terms.costs.came(bytes, () => {
      for (const { steps } of all) for (const step of steps) this.#do(step);
    });
    return true;
  }

  /** @throws ModeletError `dropped` if an HTTP client waits, and nothing is left that could answer it */
  end(): void {
    if (this.hasSent || !this.#msg.res) return;
    throw new ModeletError('dropped', 'the code of the stage sent no message');
  }

  #do(step: MessageStep): void {
    switch (step.does) {
      case 'send':
        this.#send(step);
        return;
      case 'error': {
        if (stageAt(this.#context.deployment().graph, this.#node.id)?.caught) this.hasSent = true;
        this.#node.error(step.text, this.#message(step.message, false));
        return;
      }
      case 'status':
        this.#context.showStatus(this.#node, (step.status ?? {}) as NodeStatus);
        return;
      case 'set':
        contextOf(this.#node, step).set(step.key, step.value, step.store || undefined);
        return;
      case 'increment': {
        const store = contextOf(this.#node, step);
        const before = Number(store.get(step.key, step.store || undefined)) || 0;
        store.set(step.key, before + step.by, step.store || undefined);
      }
    }
  }

  #send({ outputs, isLast }: Extract<MessageStep, { does: 'send' }>): void {
    let isFirst = isLast && !this.hasSent;
    const sent = outputs.map((list) => {
      const messages = list.map((made) => {
        const message = this.#message(made, isLast);
        // The leases and the job of the request end with one of its messages.
        if (!isFirst && message !== this.#msg && message.modelet) {
          const { leases: _leases, job: _job, ...trace } = message.modelet;
          message.modelet = trace;
        }
        isFirst = false;
        return message;
      });
      return messages.length > 1 ? messages : (messages[0] ?? null);
    });
    this.hasSent = true;
    sendFrom(this.#context.RED, this.#node, sent);
  }

  /** @param takes whether the message that came may be changed, because the code has ended */
  #message(made: MadeMessage, takes: boolean): PipelineMessage {
    const { RED } = this.#context;
    const { isOriginal, properties, kept, removed } = made;
    const original = this.#msg as PipelineMessage & Record<string, unknown>;
    const { req, res, _msgid, modelet } = original;
    let message: PipelineMessage & Record<string, unknown>;
    if (isOriginal) message = takes ? original : RED.util.cloneMessage(original);
    else {
      message = { _msgid, ...(modelet && { modelet: { ...modelet } }) };
      // A new message is still one of its request.
      if (res) Object.assign(message, { req, res });
    }
    if (isOriginal) forgetError(message);
    const keptValues = Object.entries(kept).map(([name, of]) => [name, original[of]] as const);
    for (const name of removed) delete message[name];
    for (const [name, value] of [...Object.entries(properties), ...keptValues]) {
      if (name === 'payload') writeValue(RED, message, this.#deployed.first.output, value);
      else if (!APART.has(name)) message[name] = value;
    }
    return message;
  }

  get #node(): Node {
    const id = this.#deployed.route.exit;
    const node = this.#context.live.get(id)?.node;
    if (!node) throw flowsChanged();
    return node;
  }
}

function contextOf(node: Node, { scope }: ContextPlace): NodeContext {
  const context = node.context() as NodeContext & Record<'flow' | 'global', NodeContext>;
  return scope === 'context' ? context : context[scope];
}

function canLeave(value: unknown, maxBytes: number): boolean {
  try {
    encodePayload([value], { blame: 'invalid_input', maxBytes });
    return true;
  } catch {
    return false;
  }
}

/** Returns the steps in a result, or in a part of one; null if it is a plain value. */
function messageStepsIn(value: unknown, { sends }: MessageUse): readonly MessageSteps[] | null {
  // All have been sent in parts.
  if (value === null) return sends ? [] : null;
  if (Array.isArray(value)) return sends && value.every(isSteps) ? value : null;
  return isSteps(value) ? [value] : null;
}

function isSteps(value: unknown): value is MessageSteps {
  return typeof value === 'object' && value !== null && Array.isArray((value as MessageSteps).steps);
}
