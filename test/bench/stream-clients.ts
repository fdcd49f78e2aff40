/** Clients of endpoints that answer in parts: how long the first part takes, and clients that stop reading. */
import { Agent, type IncomingMessage, request } from 'node:http';

/** The stream that the modelet makes: parts of so many bytes, one each `ms`. */
export interface Asked {
  readonly parts: number;
  readonly ms: number;
  readonly bytes: number;
}

export interface Streaming {
  /** Milliseconds from the request to the first part of each stream. */
  readonly firstMs: readonly number[];
  /** Streams that came to their end. */
  readonly streams: number;
}

/** Reads one stream after the other in `clients` connections for some seconds. */
export async function readStreams(url: string, asked: Asked, clients: number, seconds: number): Promise<Streaming> {
  const agent = new Agent({ keepAlive: true, maxSockets: clients });
  const endsAt = performance.now() + seconds * 1000;
  const firstMs: number[] = [];
  let streams = 0;
  const client = async (number: number): Promise<void> => {
    // Spread over the time of one stream, as clients that know nothing of each other are.
    await new Promise((resolve) => setTimeout(resolve, (number / clients) * asked.parts * asked.ms));
    while (performance.now() < endsAt) {
      firstMs.push(await readStream(url, asked, agent));
      streams += 1;
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, number) => client(number)));
  agent.destroy();
  return { firstMs, streams };
}

/** Reads one stream to its end. Resolves with the milliseconds to its first part. */
function readStream(url: string, asked: Asked, agent: Agent): Promise<number> {
  return new Promise((resolve, reject) => {
    const sentAt = performance.now();
    let first = Number.NaN;
    let last = '';
    open(url, asked, agent, reject, (answer) => {
      answer.setEncoding('utf8');
      answer.on('data', (text: string) => {
        if (Number.isNaN(first)) first = performance.now() - sentAt;
        last = text;
      });
      answer.on('end', () => {
        if (answer.statusCode === 200 && last.includes('event: done')) resolve(first);
        else reject(new Error(`${url} answered ${answer.statusCode}: ${last.slice(0, 300)}`));
      });
    });
  });
}

/** Clients of streams that do not end by themselves. */
export class OpenStreams {
  readonly #answers: IncomingMessage[] = [];

  /** Resolves when all streams have begun. @param reads whether the clients read on */
  async open(url: string, asked: Asked, clients: number, reads: boolean): Promise<void> {
    await Promise.all(
      Array.from(
        { length: clients },
        () =>
          new Promise<void>((resolve, reject) => {
            open(url, asked, new Agent(), reject, (answer) => {
              this.#answers.push(answer);
              answer.on('error', () => {});
              if (reads) answer.resume();
              resolve();
            });
          }),
      ),
    );
  }

  close(): void {
    for (const answer of this.#answers.splice(0)) answer.destroy();
  }
}

function open(
  url: string,
  asked: Asked,
  agent: Agent,
  onError: (error: Error) => void,
  onAnswer: (answer: IncomingMessage) => void,
): void {
  const headers = { 'Content-Type': 'application/json' };
  request(url, { method: 'POST', agent, headers }, onAnswer).on('error', onError).end(JSON.stringify(asked));
}
