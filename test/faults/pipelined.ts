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

/**
 * Posts `{"n": number}` so many times and resolves when each has its answer. Requests of a connection that ends before its
 * first answer are sent again. @throws Error where a connection ends later, and what `onAnswer` throws
 */
export async function pipelined(
  url: string,
  requests: number,
  connections: number,
  onAnswer: (answer: PipelinedAnswer) => void,
): Promise<void> {
  const { hostname, port, pathname } = new URL(url);
  const open = (): Socket => connect(Number(port), hostname);
  const sockets = Array.from({ length: connections }, open);
  const ask = async (numbers: readonly number[], first: Socket): Promise<void> => {
    const text = numbers.map((number) => asRequest(pathname, { n: number })).join('');
    for (let socket = first; !(await exchange(socket, text, numbers, onAnswer)); sockets.push(socket)) socket = open();
  };
  try {
    await Promise.all(sockets.map((socket) => once(socket, 'connect')));
    const asked = sockets.map((socket, index) => {
      const count = Math.ceil((requests - index) / connections);
      return ask(
        Array.from({ length: count }, (_, row) => index + row * connections),
        socket,
      );
    });
    await Promise.all(asked);
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

/**
 * Sends requests. Resolves with true when all are answered, and with false if the connection ends before its first
 * answer: a server of Node.js closes a connection from which it has read no head for 60 s, also if it was too busy to read.
 */
function exchange(
  socket: Socket,
  text: string,
  numbers: readonly number[],
  onAnswer: (answer: PipelinedAnswer) => void,
): Promise<boolean> {
  return new Promise((resolve, reject) => {
    let received = '';
    let answered = 0;
    socket.setEncoding('latin1').write(text);
    socket.on('data', (chunk: string) => {
      received += chunk;
      try {
        for (let found = firstIn(received); found; found = firstIn(received)) {
          received = received.slice(found.length);
          onAnswer({ number: numbers[answered] as number, ...found });
          answered += 1;
        }
      } catch (thrown) {
        reject(thrown as Error);
      }
      if (answered === numbers.length) resolve(true);
    });
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ECONNRESET') reject(error);
    });
    socket.on('close', () => {
      if (answered === 0) resolve(false);
      else reject(new Error(`a connection ended after ${answered} of ${numbers.length} answers`));
    });
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
