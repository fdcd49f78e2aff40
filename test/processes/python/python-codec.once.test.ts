/** Values on their way to Python and back, those of fast-check too, through a real worker. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { inspect } from 'node:util';
import * as fc from 'fast-check';
import { folderFor } from '../../fixtures/folder.ts';
import { pythonWith, WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

const [NUMPY, WITHOUT_NUMPY] = pythonWith('numpy');
const [PANDAS, WITHOUT_PANDAS] = pythonWith('pandas', 'pydantic');

const SAFE = 2n ** 53n - 1n;

function serveLines(t: TestContext, lines: string, stage: Partial<StageSpec> = {}): Promise<TestService> {
  const python = join(folderFor(t), 'model.py');
  writeFileSync(python, lines);
  const batch = { maxBatchSize: 64 };
  return serve(t, { stages: [{ id: 'model', python, predict: 'batch', batch, capacity: 4096, ...stage }] });
}

/** The value that comes back according to the documentation. */
function expected(value: unknown): unknown {
  if (typeof value === 'bigint') return value <= SAFE && value >= -SAFE ? Number(value) : value;
  if (value === undefined) return null;
  if (value instanceof Uint8ClampedArray) return new Uint8Array(value);
  if (Array.isArray(value)) return Array.from(value, expected);
  if (value === null || typeof value !== 'object' || ArrayBuffer.isView(value) || value instanceof Date) return value;
  if (value instanceof Set) return new Set([...value].map(expected));
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  return Object.fromEntries(entries.map(([key, member]) => [key, expected(member)]));
}

/** Python's sets and dicts do not tell 1 from true or 0 from -0, so there is one kind of key in each. */
const VALUES = fc.letrec((tie) => ({
  leaf: fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string({ unit: fc.integer({ min: 0xd700, max: 0xe100 }).map((code) => String.fromCharCode(code)) }),
    fc.double(),
    fc.integer(),
    fc.boolean(),
    fc.constantFrom(null, Number.NaN, Number.POSITIVE_INFINITY, -0),
    fc.bigInt(),
    fc.bigInt({ min: -(2n ** 80n), max: 2n ** 80n }),
    fc.date({ noInvalidDate: true, min: new Date('0001-01-02'), max: new Date('9999-12-30') }),
    fc.uint8Array().map((bytes) => Buffer.from(bytes)),
    fc.oneof(fc.uint8Array(), fc.uint8ClampedArray(), fc.int8Array(), fc.int16Array(), fc.uint16Array()),
    fc.oneof(
      fc.int32Array(),
      fc.uint32Array(),
      fc.float32Array(),
      fc.float64Array(),
      fc.bigInt64Array(),
      fc.bigUint64Array(),
    ),
    fc.uniqueArray(fc.string()).map((members) => new Set(members)),
  ),
  value: fc.oneof(
    { maxDepth: 4, depthSize: 'small' },
    tie('leaf'),
    fc.array(tie('value'), { maxLength: 5 }),
    fc.dictionary(fc.string(), tie('value'), { maxKeys: 5, noNullPrototype: true }),
    fc.array(fc.tuple(fc.string(), tie('value')), { maxLength: 3 }).map((entries) => new Map(entries)),
    fc.array(fc.option(tie('leaf'), { nil: undefined }), { maxLength: 3 }),
  ),
})).value;

function cycle(): unknown {
  const list: unknown[] = [];
  list.push(list);
  return list;
}

async function comeBack(service: TestService, count: number): Promise<void> {
  const values = fc.sample(VALUES, { numRuns: count, seed: 7 });
  const answers = await Promise.all(values.map((value) => service.answer(value)));
  for (const [index, { code, error, value }] of answers.entries()) {
    const sent = inspect(values[index], { depth: 9 });
    assert.equal(code, 'ok', `${error?.message}: ${sent}`);
    assert.deepEqual(value, expected(values[index]), sent);
  }
}

describe('through Python', { skip: WITHOUT_PYTHON }, () => {
  test('any value comes back as documented, without numpy', async (t) => {
    await comeBack(await serveLines(t, 'def predict(values):\n    return values'), 1500);
  });

  test('any value comes back as documented, with numpy', { skip: WITHOUT_NUMPY }, async (t) => {
    const lines = 'import numpy\ndef predict(values):\n    return values';
    await comeBack(await serveLines(t, lines, { interpreter: NUMPY }), 1500);
  });

  test('a list whose items are encoded one by one comes back the same, and no other value does', async (t) => {
    const service = await serveLines(t, 'def predict(values):\n    return values', { emits: 'list' });
    const lists = [[], fc.sample(VALUES, { numRuns: 50, seed: 9 }), [Buffer.from('crop'), new Float32Array(5), 1]];
    for (const list of lists) assert.deepEqual(await service.value(list), expected(list));
    const { code, error } = await service.answer('text');
    assert.equal(code, 'modelet_failed');
    assert.equal(error?.message, 'the stage emits lists, and its result is a value of type str instead of a list');
  });

  test('a value 1000 levels deep passes, as JSON and otherwise', async (t) => {
    const service = await serveLines(t, 'def predict(values):\n    return values');
    for (const innermost of [1, Number.NaN, Buffer.from('x')]) {
      let value: unknown = innermost;
      for (let level = 0; level < 1000; level += 1) value = level % 2 ? [value] : { a: value };
      assert.deepEqual(await service.value(value), value);
    }
  });

  const refused: Readonly<Record<string, unknown>> = {
    'a Date that Python cannot hold': new Date(Number.NaN),
    'a Map of objects': new Map([[{}, 1]]),
    'a Set of objects': new Set([[1]]),
  };
  const ofV8: readonly unknown[] = [{ pattern: /x/ }, [new Error('x')], Object('x'), cycle()];
  test('a value without an equal in Python is refused, alone, with the reason', async (t) => {
    const service = await serveLines(t, 'def predict(values):\n    return values');
    for (const [what, value] of Object.entries(refused)) {
      const [answer, beside] = await Promise.all([service.answer(value), service.answer(1)]);
      assert.equal(answer.code, 'invalid_input', what);
      assert.ok(answer.error?.message.startsWith(`the input has ${what}`), answer.error?.message);
      assert.equal(beside.value, 1);
    }
    for (const value of ofV8) {
      const { code, error } = await service.answer(value);
      assert.equal(code, 'invalid_input');
      assert.equal(error?.message, 'the input has a cycle, a RegExp, an Error or a boxed value');
    }
  });

  test('any value has the documented Python type', async (t) => {
    const lines = `
import array, datetime
def kind(value):
    return f"{type(value).__name__} {value!r}"
def predict(values):
    return [kind(value) for value in values]`;
    const service = await serveLines(t, lines);
    const kinds: readonly [unknown, string][] = [
      [1, 'int 1'],
      [0.5, 'float 0.5'],
      [[Number.NaN, -0, 3], 'list [nan, -0.0, 3]'],
      [2n ** 64n, 'int 18446744073709551616'],
      [[2 ** 60, Number.MAX_SAFE_INTEGER], 'list [1.152921504606847e+18, 9007199254740991]'],
      [Buffer.from([0, 255]), "bytes b'\\x00\\xff'"],
      [new ArrayBuffer(2), "bytes b'\\x00\\x00'"],
      [new Float32Array([0.5]), "array array('f', [0.5])"],
      [{ at: new Date(0) }, "dict {'at': datetime.datetime(1970, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)}"],
      [new Map([[1, 'one']]), "dict {1: 'one'}"],
      [new Set(['a']), "set {'a'}"],
      [[undefined], 'list [None]'],
    ];
    for (const [value, kind] of kinds) assert.equal(await service.value(value), kind);
  });
});

/** Each Python expression with the value that Node-RED gets for it, or with the reason why Node-RED gets none. */
type Rows = readonly (readonly [expression: string, value: unknown])[];

async function assertEach(service: TestService, rows: Rows): Promise<void> {
  for (const [expression, value] of rows) {
    const { code, error, value: result } = await service.answer(expression);
    if (value instanceof RegExp) {
      assert.equal(code, 'modelet_failed', expression);
      assert.match(error?.message ?? '', value, expression);
    } else {
      assert.equal(code, 'ok', `${expression}: ${error?.message}`);
      assert.deepEqual(result, value, expression);
    }
  }
}

const KEYS = `
import datetime, enum, uuid
class Colour(enum.Enum):
    RED = "red"
class Level(enum.IntEnum):
    LOW = 1
def predict(x):
    return eval(x)`;

describe('objects of well-known libraries', { skip: WITHOUT_PYTHON }, () => {
  test('of the standard library become plain values', async (t) => {
    const lines = `
import datetime, decimal, enum, pathlib, uuid
from dataclasses import dataclass
@dataclass
class Box:
    label: str
    corners: tuple
    inner: object = None
class Colour(enum.Enum):
    RED = "red"
def predict(x):
    return eval(x)`;
    const service = await serveLines(t, lines, { predict: 'item' });
    await assertEach(service, [
      [
        'Box("cat", (1, 2), Box("ear", ()))',
        { label: 'cat', corners: [1, 2], inner: { label: 'ear', corners: [], inner: null } },
      ],
      ['[Box("cat", (), b"x")]', [{ label: 'cat', corners: [], inner: Buffer.from('x') }]],
      ['{"colour": Colour.RED}', { colour: 'red' }],
      ['decimal.Decimal("0.10000000000000000001")', '0.10000000000000000001'],
      ['uuid.UUID(int=1)', '00000000-0000-0000-0000-000000000001'],
      ['pathlib.PurePosixPath("/a/b")', '/a/b'],
      ['[datetime.date(2026, 2, 3), datetime.time(4, 5)]', ['2026-02-03', '04:05:00']],
      ['datetime.timedelta(1)', /timedelta.*return what its total_seconds\(\) gives/],
      ['Box', /a value of type type/],
    ]);
  });

  test('an object that fails leaves no trace in the results after it', async (t) => {
    const lines = `
from dataclasses import dataclass
@dataclass
class Box:
    inner: object
box = Box([])
def predict(x):
    box.inner = [box] if x == "cycle" else [object()] if x == "object" else [x]
    return {"box": box}`;
    const service = await serveLines(t, lines, { predict: 'item' });
    for (const [failing, reason] of [
      ['cycle', /nested deeper than 1000 levels/],
      ['object', /a value of type object/],
    ]) {
      const { error } = await service.answer(failing);
      assert.match(error?.message ?? '', reason as RegExp);
      assert.deepEqual(await service.value('a'), { box: { inner: ['a'] } });
    }
  });

  test('a dict keeps all its members, or fails', async (t) => {
    const service = await serveLines(t, KEYS, { predict: 'item' });
    await assertEach(service, [
      ['{1: "a", 2.5: "b", True: "c", None: "d"}', { '1': 'c', '2.5': 'b', null: 'd' }],
      ['{1: "a", "1": "b"}', /a dict with two keys that become "1".*give its keys different texts/],
      ['[[{"a": {None: 1, "null": 2}}]]', /two keys that become "null"/],
      ['{1: float("nan"), "1": 0}', /two keys that become "1"/],
      [
        '{Colour.RED: 0, datetime.date(2026, 2, 3): 1, uuid.UUID(int=1): 2}',
        { red: 0, '2026-02-03': 1, '00000000-0000-0000-0000-000000000001': 2 },
      ],
      ['{Colour.RED: 0, "red": 1}', /two keys that become "red"/],
      ['{Level.LOW: float("nan"), "1": 0}', /two keys that become "1"/],
      ['{(1, 2): 0}', /a dict with a key of type tuple.*give the dict keys of text/],
    ]);
  });

  test('of pandas become lists of rows and of values', { skip: WITHOUT_PANDAS }, async (t) => {
    const lines = 'import numpy as np\nimport pandas as pd\ndef predict(x):\n    return eval(x)';
    const service = await serveLines(t, lines, { interpreter: PANDAS, predict: 'item' });
    await assertEach(service, [
      [
        'pd.DataFrame({"name": ["a", "b"], "score": [0.5, 1.5]})',
        [
          { name: 'a', score: 0.5 },
          { name: 'b', score: 1.5 },
        ],
      ],
      ['pd.DataFrame({"n": pd.array([1, None], dtype="Int64")})', [{ n: 1 }, { n: null }]],
      ['pd.DataFrame({"at": pd.to_datetime(["2026-01-02", None])})', [{ at: new Date('2026-01-02') }, { at: null }]],
      ['pd.Series([1.5, 2.5])', new Float64Array([1.5, 2.5])],
      ['pd.Series(["a", None], dtype="category")', ['a', Number.NaN]],
      ['pd.Series([1, None], dtype="Int64")', [1, null]],
      ['pd.Index(["x", "y"])', ['x', 'y']],
      ['[pd.NaT, pd.NA, pd.Timestamp("2026-01-02", tz="UTC")]', [null, null, new Date('2026-01-02')]],
      ['pd.Series([True, False])', { data: new Uint8Array([1, 0]), dims: [2], type: 'bool' }],
      [
        '{np.int64(1): 2, np.float64(2.5): float("nan"), pd.Timestamp(0, tz="UTC"): 3}',
        { '1': 2, '2.5': Number.NaN, '1970-01-01T00:00:00.000Z': 3 },
      ],
      ['{np.float64(2.5): 1, "2.5": 2}', /two keys that become "2.5"/],
      ['pd.DataFrame([[1, 2]], columns=["a", "a"])', /two columns of one name.*different names/],
      ['pd.DataFrame([[1, 2]], columns=[1, "1"])', /two keys that become "1"/],
      ['pd.Timedelta(1)', /Timedelta/],
    ]);
  });

  test('of pydantic become objects of their fields', { skip: WITHOUT_PANDAS }, async (t) => {
    const lines = `
from typing import List
from pydantic import BaseModel
class Point(BaseModel):
    x: int
class Shape(BaseModel):
    points: List[Point]
def predict(x):
    return eval(x)`;
    const service = await serveLines(t, lines, { interpreter: PANDAS, predict: 'item' });
    await assertEach(service, [['[Shape(points=[Point(x=1)])]', [{ points: [{ x: 1 }] }]]]);
  });
});

describe('numpy', { skip: WITHOUT_NUMPY }, () => {
  test('arrays arrive as numpy arrays without a copy, and go back as typed arrays', async (t) => {
    const lines = `
import numpy as np
def predict(x):
    assert isinstance(x["a"], np.ndarray) and not x["a"].flags.owndata and x["a"].flags.writeable
    x["a"] *= 2
    return {"doubled": x["a"], "half": x["a"].astype("f2"), "flags": x["a"] > 2, "every other": x["a"][::2],
            "swapped": x["a"].astype(">f8"), "none": np.empty(0, "i4"), "sum": x["a"].sum(), "any": np.bool_(True),
            "count": np.int64(3), "nan": np.float32("nan"), "names": np.array(["a", "b"]), "ints": np.arange(3)}`;
    const service = await serveLines(t, lines, { interpreter: NUMPY, predict: 'item' });
    assert.deepEqual(await service.value({ a: new Float32Array([1, 2, 3]) }), {
      doubled: new Float32Array([2, 4, 6]),
      // No typed array would keep these types.
      half: { data: new Float32Array([2, 4, 6]), dims: [3], type: 'float16' },
      flags: { data: new Uint8Array([0, 1, 1]), dims: [3], type: 'bool' },
      'every other': new Float32Array([2, 6]),
      swapped: new Float64Array([2, 4, 6]),
      none: new Int32Array(0),
      sum: 12,
      any: true,
      count: 3,
      nan: Number.NaN,
      names: ['a', 'b'],
      ints: new BigInt64Array([0n, 1n, 2n]),
    });
  });

  test('arrays of several dimensions are {data, dims, type}, and come back as they were', async (t) => {
    const lines = `
import numpy as np
def predict(x):
    return [x["image"].transpose(), x["mask"], x["half"], x["image"].shape == (2, 3),
            [x["mask"].dtype.name, x["half"].dtype.name], np.matrix(x["mask"])]`;
    const service = await serveLines(t, lines, { interpreter: NUMPY, predict: 'item' });
    const image = { data: new Float32Array([1, 2, 3, 4, 5, 6]), dims: [2, 3], type: 'float32' };
    const mask = { data: new Uint8Array([1, 0]), dims: [1, 2], type: 'bool' };
    const half = { data: new Float32Array([0.5]), dims: [1, 1], type: 'float16' };
    assert.deepEqual(await service.value({ image, mask, half }), [
      { data: new Float32Array([1, 4, 2, 5, 3, 6]), dims: [3, 2], type: 'float32' },
      mask,
      half,
      true,
      ['bool', 'float16'],
      mask,
    ]);
    const echo = await serveLines(t, 'import numpy\ndef predict(x):\n    return x', { interpreter: NUMPY });
    for (const odd of [
      { ...image, dims: [7] },
      { ...image, dims: null },
      { ...image, type: 'bool', more: 1 },
    ]) {
      assert.deepEqual(await echo.value(odd), odd);
    }
  });

  test('a batch may return one frame or matrix, with a row for each result', { skip: WITHOUT_PANDAS }, async (t) => {
    const lines = `
import numpy as np
import pandas as pd
def predict(rows):
    if rows[0] == "matrix":
        return np.matrix([[1, 2], [3, 4]], "f4")
    names = ["n", "text"] if rows[0] == "frame" else ["n", "n"]
    return pd.DataFrame([[1, "a"], [2, "b"]], columns=names)`;
    const batch = { policy: 'oldest', maxBatchSize: 2, maxWaitMs: 60_000 } as const;
    const service = await serveLines(t, lines, { interpreter: PANDAS, predict: 'batch', batch });
    const both = (what: string): Promise<unknown[]> => Promise.all([what, what].map((one) => service.value(one)));
    assert.deepEqual(await both('frame'), [
      { n: 1, text: 'a' },
      { n: 2, text: 'b' },
    ]);
    assert.deepEqual(await both('matrix'), [Float32Array.of(1, 2), Float32Array.of(3, 4)]);
    const [{ error } = { error: null }] = await Promise.all(['twice', 'twice'].map((one) => service.answer(one)));
    assert.match(error?.message ?? '', /predict returned a DataFrame with two columns of one name: give its columns/);
  });

  test('a batch may return one array, with a row for each result', async (t) => {
    const lines = 'import numpy as np\ndef predict(rows):\n    return np.stack(rows) @ np.eye(2, dtype="f4")';
    const service = await serveLines(t, lines, { interpreter: NUMPY });
    const rows = [1, 2, 3].map((n) => new Float32Array([n, -n]));
    assert.deepEqual(await Promise.all(rows.map((row) => service.value(row))), rows);
  });

  test('a value without an equal in JavaScript is refused', async (t) => {
    const lines = 'import numpy as np\ndef predict(x):\n    return {"x": eval(x)}';
    const service = await serveLines(t, lines, { interpreter: NUMPY, predict: 'item' });
    const expressions = ['np.array([1j])', 'np.complex64(1)', 'np.array([(1, 2)], "i4,i4")'];
    await assertEach(
      service,
      expressions.map((expression) => [expression, /a numpy value of type/]),
    );
  });

  test('masked elements become null, and datetime64 becomes Date', async (t) => {
    const lines = 'import numpy as np\ndef predict(x):\n    return {"x": eval(x)}';
    const service = await serveLines(t, lines, { interpreter: NUMPY, predict: 'item' });
    await assertEach(service, [
      ['np.ma.array([1.5, 2.5], mask=[False, True])', { x: [1.5, null] }],
      ['np.ma.array([[1, 2]], mask=[[True, False]])', { x: [[null, 2]] }],
      ['np.ma.masked', { x: null }],
      ['np.datetime64("2020-01-01T00:00:00.123456")', { x: new Date('2020-01-01T00:00:00.123Z') }],
      ['np.array([["2020-01-01", "NaT"]], "M8[s]")', { x: [[new Date('2020-01-01'), null]] }],
      ['np.datetime64(10**17, "s")', /beyond the years of a datetime/],
    ]);
  });
});
