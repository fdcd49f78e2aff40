/** Who gets the live view of the sidebar, by real connections of editors: accounts that may read, while they ask. */
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import type { View } from '../../src/observe/views/view.ts';
import { runtime, stage, TAB } from '../fixtures/flow.ts';
import { NODE_RED_MODULE, NodeRed, until } from '../fixtures/node-red.ts';

interface Socket {
  on(event: 'open' | 'message' | 'close', listener: (data: { toString(): string }) => void): void;
  send(text: string): void;
  close(): void;
}

const require = createRequire(import.meta.url);
const fromNodeRed = createRequire(require.resolve(NODE_RED_MODULE));
const fromEditor = createRequire(fromNodeRed.resolve('@node-red/editor-api'));
const WebSocket = fromEditor('ws') as new (url: string) => Socket;

/** By token. An editor is connected to everything with `status.read`. */
const PERMISSIONS: Readonly<Record<string, string>> = { reader: 'read', guest: 'status.read', owner: '*' };

let nodeRed: NodeRed;

/** What an editor is told, by its connection. */
class Connection {
  readonly views: View[] = [];
  /** Views, and whatever else. */
  messages = 0;
  readonly #socket: Socket;

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  static async open(token: string): Promise<Connection> {
    const socket = new WebSocket(`${nodeRed.url.replace('http', 'ws')}/admin/comms`);
    const connection = new Connection(socket);
    let isAccepted = false;
    socket.on('open', () => socket.send(JSON.stringify({ auth: token })));
    socket.on('message', (data) => {
      const message = JSON.parse(data.toString()) as { auth?: string } | { topic: string; data: View }[];
      if (!Array.isArray(message)) {
        isAccepted = message.auth === 'ok';
        return;
      }
      connection.messages += message.length;
      connection.views.push(...message.flatMap(({ topic, data: view }) => (topic === 'modelets/view' ? [view] : [])));
    });
    await until('the connection is accepted', () => isAccepted);
    return connection;
  }

  send(topic: string, data: unknown): void {
    this.#socket.send(JSON.stringify({ topic, data }));
  }

  close(): void {
    this.#socket.close();
  }
}

async function ticket(token: string): Promise<string | undefined> {
  const headers = { Authorization: `Bearer ${token}` };
  const response = await fetch(`${nodeRed.url}/admin/modelets/watch`, { method: 'POST', headers });
  return response.ok ? ((await response.json()) as { ticket: string }).ticket : undefined;
}

before(async () => {
  const account = (username: string) =>
    Promise.resolve(PERMISSIONS[username] ? { username, permissions: PERMISSIONS[username] } : null);
  const adminAuth = { type: 'credentials', users: account, authenticate: () => Promise.resolve(null), tokens: account };
  nodeRed = await NodeRed.start({ adminAuth, disableEditor: false });
  const started = new Promise<void>((resolve) => nodeRed.red.events.once('flows:started', resolve));
  const flows = [TAB, runtime(), stage('one', 'return input;', [])];
  const headers = { 'Content-Type': 'application/json', 'Node-RED-API-Version': 'v2', Authorization: 'Bearer owner' };
  await nodeRed.post('/admin/flows', { flows }, { headers });
  await started;
});
after(() => nodeRed.stop());

test('an account that may read is told once a second, one that may not is told nothing', async () => {
  const [reader, guest] = await Promise.all([Connection.open('reader'), Connection.open('guest')]);
  assert.equal(await ticket('guest'), undefined);
  guest.send('modelets/watch', 'made up');
  guest.send('modelets/watch', { session: 'made up' });
  reader.send('modelets/watch', await ticket('reader'));
  await until('the reader is told again and again', () => reader.views.length >= 3);
  const [runtimeView] = reader.views.at(-1)?.runtimes ?? [];
  assert.deepEqual([runtimeView?.id, runtimeView?.stages.map(({ name }) => name)], ['runtime', ['one']]);
  assert.deepEqual(runtimeView?.chains[0]?.stages, ['one']);
  assert.equal(guest.views.length, 0);
  reader.close();
  guest.close();
});

test('a connection that leaves, or is closed, is told no more', async () => {
  const [leaving, closing, staying] = await Promise.all(['reader', 'reader', 'reader'].map(Connection.open));
  assert.ok(leaving && closing && staying);
  for (const connection of [leaving, closing, staying]) connection.send('modelets/watch', await ticket('reader'));
  await until('all are told', () => [leaving, closing, staying].every(({ views }) => views.length > 0));
  leaving.send('modelets/leave', '');
  closing.close();
  // What was under way arrives; then there is silence, while the third one is told on.
  const [from, heard] = [staying.views.length, leaving.views.length];
  await until('the one that stays is told on', () => staying.views.length >= from + 3);
  assert.ok(leaving.views.length <= heard + 1, `${leaving.views.length} after ${heard}`);
  staying.close();
});
