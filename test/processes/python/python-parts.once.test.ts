/**
 * Results in parts from Python: the fate of each part, and of the end. parts.once.test.ts has what all workers do alike.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { MOST_BYTES_UNDER_WAY } from '../../../src/runtime/worker/batch/stream.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { allGone } from '../../fixtures/processes.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { type Answer, serve, startService, type TestService } from '../../fixtures/service.ts';

const LINES = `
closed = []


class Model:
    def __init__(self, init, ctx):
        self.log = ctx.log

    def predict(self, asked):
        way = asked["way"]
        if way == "closed":
            return list(closed)
        if way == "iterator":
            return iter([1, 2])
        if way == "map":
            return map(str, [1, 2])
        if way == "list":
            return [1, 2]
        return self.generate(way)

    def generate(self, way):
        try:
            yield 1
            if way == "raise":
                raise KeyError("second")
            if way == "exception":
                yield ValueError("yielded")
            if way == "none":
                yield None
            if way == "bytes":
                yield b"two"
            if way == "function":
                yield print
            if way == "large":
                yield "x" * 2_000_000
            if way == "halves":
                for _ in range(4):
                    yield "x" * 524_288
            if way == "same":
                words = []
                for word in "ab":
                    words.append(word)
                    yield words
            if way == "return":
                return {"tokens": 1}
            if way == "refuse":
                yield "refuse"
        except GeneratorExit:
            if way == "function":
                raise RuntimeError("not at the end either")
            raise
        finally:
            closed.append(way)

    def postprocess(self, part, asked):
        if part == "refuse":
            error = ValueError("no such part")
            error.code = "invalid_input"
            raise error
        return f"{part}!" if asked["way"] == "finish" else part
`;

describe('parts from Python', { skip: WITHOUT_PYTHON }, () => {
  let service: TestService;
  let folder: string;
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'modelet-processes-'));
    const python = join(folder, 'model.py');
    writeFileSync(python, LINES);
    service = await startService({ stages: [{ id: 'model', python }], config: { maxPayloadBytes: 1_500_000 } });
  });
  after(async () => {
    await service.end();
    await allGone();
    rmSync(folder, { recursive: true });
  });

  async function stream(way: string): Promise<{ parts: unknown[]; answer: Answer }> {
    const parts: unknown[] = [];
    const answer = await service.answer({ way }, { onPart: (part) => void parts.push(part) });
    return { parts, answer };
  }

  const good: Readonly<Record<string, readonly [parts: readonly unknown[], end: unknown]>> = {
    plain: [[1], null],
    none: [[1, null], null],
    bytes: [[1, Buffer.from('two')], null],
    same: [[1, ['a'], ['a', 'b']], null],
    return: [[1], { tokens: 1 }],
    finish: [['1!'], null],
    iterator: [[1, 2], null],
    map: [['1', '2'], null],
    list: [[], [1, 2]],
  };
  for (const [way, [expected, end]] of Object.entries(good)) {
    test(`arrive one by one if the request wants them, and then the end: ${way}`, async () => {
      const { parts, answer } = await stream(way);
      assert.deepEqual([parts, answer.code, answer.value], [expected, 'ok', end]);
    });

    test(`form the result if the request does not want them: ${way}`, async () => {
      assert.deepEqual(await service.value({ way }), end ?? expected);
    });
  }

  const bad: Readonly<Record<string, RegExp>> = {
    raise: /^modelet_failed: KeyError: 'second'$/,
    exception: /^modelet_failed: yielded$/,
    function: /^modelet_failed: .*a value of type builtin_function_or_method/,
    large: /^modelet_failed: the result is \d+ bytes; the limit is 1500000 bytes$/,
    refuse: /^invalid_input: no such part$/,
  };
  for (const [way, expected] of Object.entries(bad)) {
    test(`arrive before the error of a failed one, and the generator is closed: ${way}`, async () => {
      const { parts, answer } = await stream(way);
      assert.deepEqual(parts, [1]);
      assert.match(`${answer.code}: ${answer.error?.message}`, expected);
      assert.equal((await service.value<string[]>({ way: 'closed' })).at(-1), way);
      if (way === 'raise')
        assert.match(answer.error?.stack ?? '', /model\.py", line \d+, in generate\n.*raise KeyError/s);
    });
  }

  test('wait while too many bytes are in progress, and continue as they are taken', async () => {
    assert.ok(2 * 524_288 >= MOST_BYTES_UNDER_WAY);
    let parts = 0;
    const take: (() => void)[] = [];
    const asked = service.ask(
      { way: 'halves' },
      {
        onPart: () => {
          parts += 1;
          return new Promise<void>((resolve) => take.push(resolve));
        },
      },
    );
    for (let taken = 0; !asked.settled; ) {
      await until('a part comes, or the end', () => take.length > 0 || asked.settled !== null);
      assert.ok(parts - taken <= 3, `${parts - taken} parts in progress`);
      taken += take.length;
      for (const one of take.splice(0)) one();
    }
    assert.equal(parts, 5);
  });

  test('fail together if they exceed the size of a result', async () => {
    const { code, error } = await service.answer({ way: 'halves' });
    assert.equal(code, 'modelet_failed');
    assert.match(error?.message ?? '', /^the parts of the result are more than 1500000 bytes together$/);
  });
});

describe('a file in Python', { skip: WITHOUT_PYTHON }, () => {
  const source = async (t: TestContext, lines: string, predict: 'item' | 'batch' = 'item') => {
    const python = join(folderFor(t), 'model.py');
    writeFileSync(python, lines);
    return serve(t, { stages: [{ id: 'model', python, predict, batch: { maxBatchSize: 2 } }] });
  };

  test('whose predict returns an iterator for a batch, or in one, fails like one in JavaScript', async (t) => {
    const lines =
      'def predict(values):\n    return iter(values) if "whole" in values else [iter("a") for _ in values]\n';
    const service = await source(t, lines, 'batch');
    for (const input of ['whole', 'each']) {
      const { code, error } = await service.answer(input);
      assert.equal(code, 'modelet_failed');
      assert.match(error?.message ?? '', /^predict gave an iterator for a batch/);
    }
  });

  test('with examples that yield parts warms up, and the check runs them', async (t) => {
    const service = await source(
      t,
      'class Model:\n    examples = [3]\n    def predict(self, count):\n        yield from range(count)\n',
    );
    await service.ready();
    const [checked] = await service.service.check();
    assert.equal(checked?.error, null);
    assert.deepEqual(await service.value(2), [0, 1]);
  });

  test('whose predict is an async generator gives all its parts, and an error ends it', async (t) => {
    const code = 'async def predict(input):\n    yield input\n    if input > 1: raise ValueError("no more")\n';
    const service = await source(t, code);
    assert.deepEqual(await service.value(1), [1]);
    const { code: failure, error } = await service.answer(2);
    assert.deepEqual([failure, error?.message], ['modelet_failed', 'no more']);
  });
});
