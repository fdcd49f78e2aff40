/**
 * Takes the calls of forked workers. Node.js cannot pass a worker its streams as it forks, so the worker connects once for
 * each, and says who it is. The address is an abstract socket of Linux, which leaves no file behind. Other users of the
 * machine can connect to it as well, but they know no mark.
 */
import { randomUUID } from 'node:crypto';
import { createServer, type Server, type Socket } from 'node:net';

/** The streams in the order of their numbers in calls. */
const STREAMS = ['stdout', 'stderr', 'pipe'] as const;
/** Matches what a worker sends first: its mark, its process id, and the number of the stream. */
const CALL = /^([0-9a-f-]{36}) (\d+) ([0-2])\n$/;
/** A caller that does not say in this time who it is gets no answer, in ms. */
const PATIENCE_MS = 10_000;

/** Length of the longest address. Node.js 20 would make a shorter one longer, by zeros that others do not know. */
const ADDRESS_LENGTH = 108;

type StreamName = (typeof STREAMS)[number];
export type ForkedStreams = Readonly<Record<StreamName, Socket>>;

export interface ForkListenerEvents {
  /** Whether a worker with this mark is to call. */
  expects(mark: string): boolean;
  /** All streams of a worker are there. */
  onCall(mark: string, pid: number, streams: ForkedStreams): void;
  onError(error: Error): void;
}

export class ForkListener {
  readonly address: string = `\0modelet-${randomUUID()}`.padEnd(ADDRESS_LENGTH, '-');
  readonly #server: Server;
  readonly #events: ForkListenerEvents;
  /** Streams of workers whose others are not there yet, by mark. */
  readonly #begun: Map<string, Map<StreamName, Socket>> = new Map();

  constructor(events: ForkListenerEvents) {
    this.#events = events;
    this.#server = createServer((socket) => this.#greet(socket));
    this.#server.on('error', events.onError);
    this.#server.listen(this.address);
  }

  close(): void {
    this.#server.close();
    for (const mark of this.#begun.keys()) this.forget(mark);
  }

  /** Ends the calls of a worker that has ended before all of them were there. */
  forget(mark: string): void {
    for (const socket of this.#begun.get(mark)?.values() ?? []) socket.destroy();
    this.#begun.delete(mark);
  }

  #greet(socket: Socket): void {
    socket.on('error', () => {
      // The caller has gone; its channel says so to those who know it.
    });
    socket.setTimeout(PATIENCE_MS, () => socket.destroy());
    // A call is one small write, which arrives whole. Its caller sends no more until it gets an answer.
    socket.once('data', (chunk: Buffer) => {
      socket.pause();
      socket.setTimeout(0);
      socket.removeAllListeners('timeout');
      const [, mark, pid, stream] = CALL.exec(chunk.toString('latin1')) ?? [];
      if (mark === undefined || !this.#events.expects(mark)) socket.destroy();
      else this.#called(mark, Number(pid), STREAMS[Number(stream)] as StreamName, socket);
    });
  }

  #called(mark: string, pid: number, stream: StreamName, socket: Socket): void {
    const begun = this.#begun.get(mark) ?? new Map<StreamName, Socket>();
    this.#begun.set(mark, begun.set(stream, socket));
    if (begun.size < STREAMS.length) return;
    this.#begun.delete(mark);
    const streams = Object.fromEntries(begun) as ForkedStreams;
    this.#events.onCall(mark, pid, streams);
    streams.pipe.write('\n');
    for (const each of begun.values()) each.resume();
  }
}
