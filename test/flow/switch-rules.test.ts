/** The switch nodes that the engine can follow, and the reasons why it cannot follow others. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readSwitch } from '../../src/flow/read/switch-rules.ts';

type Properties = Readonly<Record<string, unknown>>;

const ELSE = { t: 'else' };

/** A switch node as the editor makes it. */
function read(rules: readonly object[], properties: Properties = {}): ReturnType<typeof readSwitch> {
  const drawn = { id: 's', type: 'switch', property: 'payload.kind', propertyType: 'msg', rules, checkall: 'true' };
  return readSwitch({ ...drawn, ...properties }, { ...drawn, ...properties });
}

const eq = (v: unknown, vt?: string): object => ({ t: 'eq', v, ...(vt ? { vt } : {}) });

const PATHS: readonly (readonly [property: string, path: readonly string[]])[] = [
  ['payload', []],
  ['payload.kind', ['kind']],
  ['payload.a.b-c.$d', ['a', 'b-c', '$d']],
  ['payload[0].x', ['0', 'x']],
  ['payload[\'a b\']["c.d"]', ['a b', 'c.d']],
];

describe('the engine looks at', () => {
  for (const [property, path] of PATHS) {
    test(property, () => assert.deepEqual(read([eq('x', 'str'), ELSE], { property }).path, path));
  }
});

test('values have the types that Node-RED gives them', () => {
  const rules = [
    eq('1', 'str'),
    eq('2', 'num'),
    eq('true', 'bool'),
    eq('3'),
    eq('four'),
    { t: 'btwn', v: '1', vt: 'num', v2: '5' },
    { t: 'istype', v: 'json', vt: 'json' },
    { t: 'nempty' },
    ELSE,
  ];
  const { rules: found, fault } = read(rules, { checkall: 'false' });
  assert.equal(fault, null);
  assert.deepEqual(
    found.map(({ operator, value, limit }) => [operator, value, limit]),
    [
      ['eq', '1', null],
      ['eq', 2, null],
      ['eq', true, null],
      ['eq', 3, null],
      ['eq', 'four', null],
      ['btwn', 1, 5],
      ['istype', 'json', null],
      ['nempty', null, null],
      ['else', null, null],
    ],
  );
});

test('the engine cannot follow a switch node without a last rule "otherwise"', () => {
  assert.match(read([eq('x', 'str')]).fault ?? '', /drops messages that match no rule/);
  assert.match(read([]).fault ?? '', /drops messages that match no rule/);
  assert.match(read([ELSE, eq('x', 'str')]).fault ?? '', /drops messages that match no rule/);
});

/** Rules in front of `otherwise` in a node that checks all of them, and whether a value may match two. */
const CHECKED: readonly (readonly [rules: readonly object[], exclusive: boolean])[] = [
  [[eq('a', 'str'), eq('b', 'str')], true],
  [[eq('a', 'str'), eq('1', 'num'), { t: 'null' }], true],
  [[{ t: 'true' }, { t: 'false' }], true],
  [[{ t: 'lt', v: '5', vt: 'num' }], false],
  [[eq('a', 'str'), eq('a', 'str')], false],
  [[eq('1', 'str'), eq('1.0', 'str')], false],
  [[eq('1', 'str'), eq('1', 'num')], false],
  [[{ t: 'true' }, eq('1', 'num')], false],
];

for (const [rules, exclusive] of CHECKED) {
  test(`a node that checks all rules is ${exclusive ? 'followed' : 'left to Node-RED'}: ${JSON.stringify(rules)}`, () => {
    const { fault } = read([...rules, ELSE]);
    if (exclusive) assert.equal(fault, null);
    else assert.match(fault ?? '', /may send a message to several outputs/);
    assert.equal(read([...rules, ELSE], { checkall: 'false' }).fault, null);
  });
}

const LEFT: readonly (readonly [reason: RegExp, rules: readonly object[], properties?: Properties])[] = [
  [/something else than the payload/, [ELSE], { property: 'topic' }],
  [/something else than the payload/, [ELSE], { property: 'payload', propertyType: 'flow' }],
  [/something else than the payload/, [ELSE], { property: 'payload[msg.topic]' }],
  [/something else than the payload/, [ELSE], { property: '$count(payload)', propertyType: 'jsonata' }],
  [/renumbers sequences/, [ELSE], { repair: true }],
  [/only Node-RED knows its rule "regex"/, [{ t: 'regex', v: 'a', vt: 'str' }, ELSE]],
  [/only Node-RED knows its rule "jsonata_exp"/, [{ t: 'jsonata_exp', v: 'true', vt: 'jsonata' }, ELSE]],
  [/only Node-RED knows its rule "head"/, [{ t: 'head', v: '1', vt: 'num' }, ELSE]],
  [/more than constants/, [eq('topic', 'msg'), ELSE]],
  [/more than constants/, [eq('', 'prev'), ELSE]],
  [/more than constants/, [{ t: 'btwn', v: '1', vt: 'num', v2: 'x', v2t: 'flow' }, ELSE]],
];

describe('a switch node is left to Node-RED because', () => {
  for (const [reason, rules, properties] of LEFT) {
    test(`${reason.source}: ${JSON.stringify(properties ?? rules)}`, () => {
      assert.match(read(rules, { checkall: 'false', ...properties }).fault ?? '', reason);
    });
  }
});
