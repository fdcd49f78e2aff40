/**
 * The inputs that the paced split takes apart: arrays, text, files, lines of JSON; and the errors for others.
 * Shows: node modelet-feed.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join as joinPath } from 'node:path';
import { describe, test } from 'node:test';
import { arrived, feed, join, payloads, sendAll, whenIdle } from '../../fixtures/drawn.ts';
import { catchNode, completeNode, func, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const red = useNodeRed();

interface Ends {
  readonly out: Message[];
  readonly failed: Message[];
  readonly done: Message[];
}

async function deploy(from: string, window: string): Promise<Ends> {
  await red.deployReady([
    TAB,
    runtime(),
    feed('feed', 'stage', { from, window }),
    stage('stage', 'return input;', 'out'),
    catchNode('catch', 'failed'),
    completeNode('complete', ['feed'], 'done'),
    ...['out', 'failed', 'done'].map(sink),
  ]);
  return { out: red.inputs('out'), failed: red.inputs('failed'), done: red.inputs('done') };
}

describe('lines', () => {
  for (const [what, payload] of [
    ['a text', 'one\ntwo\r\n\nfour'],
    ['a Buffer', Buffer.from('one\ntwo\r\n\nfour\n')],
  ] as const) {
    test(`of ${what} become a message each`, async () => {
      const { out, done } = await deploy('lines', '2');
      red.send('feed', { payload });
      await arrived(done, 1);
      assert.deepEqual(payloads(out), ['one', 'two', '', 'four']);
    });
  }

  test('of a file in the user directory win over the payload', async () => {
    const { out, done } = await deploy('lines', '2');
    await writeFile(joinPath(red.userDir, 'some lines.txt'), 'here\nand there\n');
    red.send('feed', { payload: 'not this', filename: 'some lines.txt' });
    await arrived(done, 1);
    assert.deepEqual(payloads(out), ['here', 'and there']);
  });

  for (const [what, filename] of [
    ['is missing', 'no such file.txt'],
    ['cannot be read', '/'],
  ] as const) {
    test(`of a file that ${what} cause one error for the whole input, and Node-RED goes on`, async () => {
      const { out, failed, done } = await deploy('lines', '2');
      red.send('feed', { filename });
      assert.match((await arrived(failed, 1))[0]?.error?.message ?? '', /no such file|not a file/);
      red.send('feed', { payload: 'next' });
      await arrived(done, 1);
      assert.deepEqual([payloads(out), failed.length, done.length], [['next'], 1, 1]);
    });
  }
});

describe('lines of JSON', () => {
  test('a bad line is reported with its place, and the others go on', async () => {
    const { out, failed, done } = await deploy('jsonl', '1');
    red.send('feed', { payload: '{"n":1}\n{"n":\n\n[2]\n"three"\nnonsense' });
    await arrived(done, 1);
    await whenIdle(red);
    assert.deepEqual(payloads(out), [{ n: 1 }, [2], 'three']);
    assert.deepEqual(
      failed.map((msg) => [msg['statusCode'], (msg['parts'] as { index: number }).index]),
      [
        [400, 1],
        [400, 4],
      ],
    );
    for (const { error } of failed) assert.match(error?.message ?? '', /a line is not JSON/);
    assert.equal(done.length, 1);
  });

  test('core join gets every part if the flow routes bad lines on', async () => {
    await red.deployReady([
      TAB,
      runtime(),
      feed('feed', 'double', { from: 'jsonl' }),
      stage('double', 'return input * 2;', 'join'),
      catchNode('catch', 'mark'),
      func('mark', `msg.payload = 'bad'; return msg;`, 'join'),
      join('join', 'out'),
      sink('out'),
    ]);
    const out = red.inputs('out');
    red.send('feed', { payload: '1\nx\n3\ny' });
    assert.deepEqual((await arrived(out, 1))[0]?.payload, [2, 'bad', 6, 'bad']);
  });
});

describe('arrays', () => {
  test('an empty array is done at once and sends nothing', async () => {
    const { out, done } = await deploy('array', '1');
    red.send('feed', { payload: [] });
    await arrived(done, 1);
    await whenIdle(red);
    assert.equal(out.length, 0);
  });

  test('whose items go to a paced split that cannot be used settle as failures, so the others follow', async () => {
    await red.deployReady([
      TAB,
      runtime(),
      feed('feed', 'inner', { window: '1' }),
      feed('inner', 'stage', { window: 'no number' }),
      stage('stage', 'return input;', 'out'),
      catchNode('catch', 'failed'),
      completeNode('complete', ['feed'], 'done'),
      ...['out', 'failed', 'done'].map(sink),
    ]);
    const [failed, done] = [red.inputs('failed'), red.inputs('done')];
    red.send('feed', { payload: [[1], [2], [3]] });
    for (const { error } of await arrived(failed, 3)) assert.match(error?.message ?? '', /window/i);
    await arrived(done, 1);
  });

  test('any other value is an error of the whole input', async () => {
    const { failed, out } = await deploy('array', '1');
    sendAll(red, 'feed', ['text', { 0: 'zero' }, undefined]);
    for (const { error } of await arrived(failed, 3)) assert.match(error?.message ?? '', /must be an array/);
    assert.equal(out.length, 0);
  });

  test('a value that Node-RED cannot clone ends its input, and takes no place in the window', async () => {
    await red.deployReady([
      TAB,
      runtime(),
      feed('feed', ['stage', 'copy'], { window: '1' }),
      stage('stage', 'return input;', 'out'),
      ...['out', 'copy'].map(sink),
    ]);
    const [out, staged] = [red.inputs('out'), red.inputs('stage')];
    const uncloneable = {
      get broken(): never {
        throw new Error('broken getter');
      },
    };
    const reports = (): string[] => red.logs.filter((line) => line.endsWith('invalid_input: broken getter'));
    for (const [at, message] of [{ payload: [1], uncloneable }, { payload: [uncloneable] }].entries()) {
      red.send('feed', message);
      await until('it has ended', () => reports().length === at + 1);
    }
    red.send('feed', { payload: ['next'] });
    assert.deepEqual(payloads(await arrived(out, 1)), ['next']);
    assert.deepEqual(payloads(staged), ['next'], 'the first wire gets no message that the second cannot get');
  });

  test('items are copies: a change of one item does not appear in another', async () => {
    await red.deployReady([
      TAB,
      runtime(),
      stage('before', 'return input;', 'feed'),
      feed('feed', 'change'),
      func('change', 'msg.mine.list.push(msg.payload); return msg;', 'stage'),
      stage('stage', 'return input;', 'out'),
      sink('out'),
    ]);
    const out = red.inputs('out');
    red.send('before', { payload: [1, 2, 3], mine: { list: [] } });
    await arrived(out, 3);
    for (const { payload, mine, modelet } of out) {
      assert.deepEqual(mine, { list: [payload] });
      // Its own way and the one it has in common with the others.
      assert.deepEqual(
        modelet?.stages.map(({ name }) => name),
        ['before', 'stage'],
      );
    }
  });
});

describe('rows of a table', () => {
  test('of a file become objects by the names of the first row, and a bad row alone fails', async () => {
    const { out, failed, done } = await deploy('csv', '2');
    await writeFile(
      joinPath(red.userDir, 'table.csv'),
      '\uFEFFid;"the; name";weight\r\n\r\n007;"Smith ""Jo""\r\nof Bern";71.5\r\ntoo;few\r\n008;;-64e0\r\n9007199254740993;"1";é',
    );
    red.send('feed', { filename: 'table.csv' });
    await arrived(done, 1);
    await whenIdle(red);
    assert.deepEqual(payloads(out), [
      { id: '007', 'the; name': 'Smith "Jo"\r\nof Bern', weight: 71.5 },
      { id: '008', 'the; name': null, weight: -64 },
      { id: '9007199254740993', 'the; name': '1', weight: 'é' },
    ]);
    assert.deepEqual(
      failed.map((msg) => [msg['statusCode'], (msg['parts'] as { index: number }).index, msg.error?.message]),
      [[400, 1, 'ModeletError: line 5: 2 values for 3 columns']],
    );
  });

  test('whose quotes are not closed are one error of the input', async () => {
    const { out, failed } = await deploy('csv', '2');
    red.send('feed', { payload: 'a,b\n1,2\n3,"4\n5,6\n' });
    assert.equal(
      (await arrived(failed, 1))[0]?.error?.message,
      'ModeletError: line 3: the quotes of a value are not closed',
    );
    assert.deepEqual(payloads(out), [{ a: 1, b: 2 }]);
  });
});
