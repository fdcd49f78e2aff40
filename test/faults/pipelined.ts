/** An HTTP client that sends many requests at once: pipelined over a few connections, without waiting for answers. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

export interface PipelinedAnswer {
  /** Position of the request that it answers, from 0. */
  readonly number: number;
  readonly status: number;
  readonly headers: string;
  /** The value of its JSON. */
  readonly body: unknown;
}

/** Posts `{"n": number}` so many times and resolves when each has its answer. @throws Error where a connection ends early, and what `onAnswer` throws. */
export async function pipelined(
  url: string,
  requests: number,
  connections: number,
  onAnswer: (answer: PipelinedAnswer) => void,
): Promise<void> {
  const { hostname, port, pathname } = new URL(url);
  const sockets = Array.from({ length: connections }, () => connect(Number(port), hostname));
  try {
    await Promise.all(sockets.map((socket) => once(socket, 'connect')));
    const numbers = sockets.map((_, index) =>
      Array.from({ length: Math.ceil((requests - index) / connections) }, (_, row) => index + row * connections),
    );
    const answered = sockets.map((socket, index) => readAnswers(socket, numbers[index] as number[], onAnswer));
    for (const [index, socket] of sockets.entries()) {
      socket.write((numbers[index] as number[]).map((number) => asRequest(pathname, { n: number })).join(''));
    }
    await Promise.all(answered);
  } finally {
    for (const socket of sockets) socket.destroy();
  }
}

function asRequest(path: string, body: object): string {
  const text = JSON.stringify(body);
  const head = [
    `POST ${path} HTTP/1.1`,
    'Host: it',
    'Content-Type: application/json',
    `Content-Length: ${text.length}`,
  ];
  return `${head.join('\r\n')}\r\n\r\n${text}`;
}

function readAnswers(
  socket: Socket,
  numbers: readonly number[],
  onAnswer: (answer: PipelinedAnswer) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let text = '';
    let answered = 0;
    socket.setEncoding('latin1');
    socket.on('data', (chunk: string) => {
      text += chunk;
      try {
        for (let found = firstIn(text); found; found = firstIn(text)) {
          text = text.slice(found.length);
          onAnswer({ number: numbers[answered] as number, ...found });
          answered += 1;
        }
      } catch (thrown) {
        reject(thrown as Error);
      }
      if (answered === numbers.length) resolve();
    });
    socket.on('error', reject);
    socket.on('close', () => reject(new Error(`a connection ended after ${answered} of ${numbers.length} answers`)));
  });
}

/** Undefined where it is not complete. */
function firstIn(text: string): (Omit<PipelinedAnswer, 'number'> & { readonly length: number }) | undefined {
  const end = text.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const headers = text.slice(0, end);
  const length = end + 4 + Number(/^content-length: (\d+)/im.exec(headers)?.[1]);
  if (!(text.length >= length)) return undefined;
  return { status: Number(headers.slice(9, 12)), headers, body: JSON.parse(text.slice(end + 4, length)), length };
}
