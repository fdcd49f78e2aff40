/**
 * Messages that pipeline nodes have sent and Node-RED has not delivered yet: it does so in a later turn of the event
 * loop. A deploy in between takes the receiving node away and with it the message; it is given to the node that bears
 * the id afterwards.
 */
import type { Node, NodeAPI, NodeMessage } from 'node-red';
import { Fifo } from '../../src/index.ts';

type WiredNode = Node & { readonly wires?: readonly (readonly string[])[] };

interface Hop {
  readonly sender: WiredNode;
  /** Per output. */
  readonly messages: readonly (object | null)[];
}

interface Delivery {
  readonly target: string;
  /** The node that would have received it. */
  readonly instance: Node;
  readonly msg: object;
}

export class Hops {
  readonly #RED: NodeAPI;
  readonly #under: Fifo<Hop> = new Fifo();
  #endangered: Delivery[] = [];

  constructor(RED: NodeAPI) {
    this.#RED = RED;
  }

  /** Sends as `sender.send(messages)` does. */
  send(sender: Node, messages: (object | null)[]): void {
    const place = this.#under.push({ sender, messages });
    sender.send(messages as NodeMessage[]);
    // Node-RED's own delivery was queued before this.
    setImmediate(() => this.#under.remove(place));
  }

  /** Flows are about to stop: remembers what is under way. `isSafe`: the node takes messages also while it closes. */
  note(isSafe: (id: string) => boolean): void {
    this.#endangered = [...this.#under].flatMap(({ sender, messages }) =>
      messages.flatMap((msg, output) =>
        (sender.wires?.[output] ?? []).flatMap((target): Delivery[] => {
          const instance = this.#RED.nodes.getNode(target) as Node | null;
          return msg && instance && !isSafe(target) ? [{ target, instance, msg }] : [];
        }),
      ),
    );
  }

  /** Flows have started: delivers what their restart has swallowed. */
  deliver(): void {
    for (const { target, instance, msg } of this.#endangered.splice(0)) {
      const successor = this.#RED.nodes.getNode(target) as Node | null;
      if (successor && successor !== instance) successor.receive(msg as NodeMessage);
    }
  }
}
