// biome-ignore-all lint/suspicious/noTemplateCurlyInString: texts in which ${NAME} is meant
/** Variables of the environment in settings that are JSON: whole values are replaced, and nothing else. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileStage, type StageConfig } from '../../src/config/compile-stage.ts';

const VARIABLES: Readonly<Record<string, unknown>> = {
  KEY: 'secret',
  EMPTY: '',
  NUMBER: 7,
  FLAG: false,
  OBJECT: { from: 'the flow' },
  JSON_TEXT: '","injected":true,"x":"',
  AGAIN: '${KEY}',
};

function compiled(properties: Readonly<Record<string, string>>): StageConfig {
  return compileStage(
    properties,
    (path) => path,
    (name) => VARIABLES[name],
  );
}

const INITS: readonly (readonly [string, unknown])[] = [
  ['{"key":"${KEY}","deep":[{"key":"${KEY}"}]}', { key: 'secret', deep: [{ key: 'secret' }] }],
  ['"${NUMBER}"', 7],
  ['["${FLAG}","${EMPTY}","${OBJECT}"]', [false, '', { from: 'the flow' }]],
  ['{"a":"${JSON_TEXT}"}', { a: '","injected":true,"x":"' }],
  ['["${AGAIN}"]', ['${KEY}']],
  [
    '["a ${KEY}","${KEY}!","${KEY}${KEY}","$KEY","${}","${A B}"]',
    ['a ${KEY}', '${KEY}!', '${KEY}${KEY}', '$KEY', '${}', '${A B}'],
  ],
  ['["$${KEY}","$$${KEY}"]', ['${KEY}', '$${KEY}']],
  ['{"${KEY}":1}', { '${KEY}': 1 }],
];
for (const [text, expected] of INITS) {
  test(`init ${text} becomes ${JSON.stringify(expected)}`, () => {
    assert.deepEqual(compiled({ init: text }).init, expected);
  });
}

test('a key named __proto__ stays a key', () => {
  const { init } = compiled({ init: '{"__proto__":{"key":"${KEY}"}}' });
  assert.deepEqual(Object.getOwnPropertyNames(init), ['__proto__']);
  assert.equal((init as { key?: unknown }).key, undefined);
});

test('env inserts variables as text, in one object or in one per worker', () => {
  assert.deepEqual(compiled({ env: '{"A":"${KEY}","B":"${NUMBER}"}' }).workers[0]?.env, { A: 'secret', B: '7' });
  const each = compiled({ env: '[{"A":"${KEY}"},{"A":"$${KEY}"}]', workers: '2' }).workers.map(({ env }) => env);
  assert.deepEqual(each, [{ A: 'secret' }, { A: '${KEY}' }]);
  assert.throws(() => compiled({ env: '{"A":"${OBJECT}"}' }), { code: 'config_invalid', message: /^env: A must be/ });
});

test('the error for an unset variable names the property and the variable', () => {
  for (const property of ['init', 'env']) {
    assert.throws(() => compiled({ [property]: '{"A":"${NOT_SET}"}' }), {
      code: 'config_invalid',
      message: `${property}: the environment variable NOT_SET is not set; "$\${NOT_SET}" is the text itself`,
    });
  }
});
