/** Exec nodes that run Python files, beside the stages that they become: the same messages, and what the action names. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { type ExecProperties, stageOfExec } from '../../../src/node-red/functions/exec-node.ts';
import { collector, node, runtime, sink, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';

const folder = mkdtempSync(join(tmpdir(), 'modelet-exec-'));
after(() => rmSync(folder, { recursive: true }));

function script(name: string, code: string): string {
  writeFileSync(join(folder, name), code);
  return join(folder, name);
}

interface ExecSample {
  readonly name: string;
  readonly exec: Partial<ExecProperties>;
  readonly payloads: readonly unknown[];
  /** Words of the obstacles; each stage also sets no msg.rc. */
  readonly obstacles: readonly string[];
}

const COMMON: ExecProperties = {
  ...{ command: '', addpay: 'payload', append: '', useSpawn: false, oldrc: false, timer: 0, wires: [[]] },
};

script('helper.py', 'def joined(words): return "+".join(words)\n');
const WORDS = script('words.py', 'import sys\nfrom helper import joined\nprint(joined(sys.argv[1:]), __name__)\n');
const BYTES = script(
  'bytes.py',
  'import subprocess, sys\nsys.stdout.buffer.write(bytes([255, 0]))\nsys.stdout.flush()\nsubprocess.run(["echo", sys.argv[1]])\nsys.exit(0)\n',
);
const STATE = script(
  'state.py',
  'import sys\ncount = globals().get("count", 0) + 1\nprint(count, float(sys.argv[1]) * 2)\n',
);
const MODEL = script('model.py', 'def predict(value):\n    return {"twice": value * 2}\n\nprint("at the top")\n');

const CORPUS: readonly ExecSample[] = [
  {
    name: 'words of the command, of the payload and behind it',
    exec: { command: `python3 -u ${WORDS} --fast "two words"`, append: "'at the end' x" },
    payloads: ['a b', '"quoted text" c', true, 7, 1.5, [1, 2]],
    obstacles: ['rc msg.rc'],
  },
  {
    name: 'bytes, and the output of a program',
    exec: { command: `python3 ${BYTES}`, addpay: '', append: 'told', oldrc: true },
    payloads: ['not given'],
    obstacles: [],
  },
  {
    name: 'each message anew',
    exec: { command: `python3 ${STATE}`, addpay: 'topic' },
    payloads: [1, 2],
    obstacles: ['rc msg.rc'],
  },
];

function convert(exec: Partial<ExecProperties>): ReturnType<typeof stageOfExec> {
  return stageOfExec({ ...COMMON, ...exec }, folder);
}

function flows(): FlowNode[] {
  const pairs = CORPUS.flatMap(({ exec }, at) => {
    const { useSpawn, oldrc, timer, ...own } = { ...COMMON, ...exec };
    const texts = { useSpawn: String(useSpawn), oldrc: String(oldrc), timer: String(timer) };
    const { properties } = convert(exec);
    return [
      { ...node(`exec-${at}`, 'exec', [`before-${at}`], { ...own, ...texts }), wires: [[`before-${at}`], [], []] },
      sink(`before-${at}`),
      node(`stage-${at}`, 'modelet-stage', [`collector-${at}`], { ...properties, name: `s${at}`, runtime: 'runtime' }),
      collector(`collector-${at}`, `after-${at}`),
      sink(`after-${at}`),
    ];
  });
  return [TAB, runtime(), ...pairs];
}

/** Returns the message without what the action names, its id, and the trace of the pipeline. */
function contentOf({ _msgid, modelet, rc, _event, ...content }: Message): object {
  return structuredClone(content);
}

describe('exec nodes that became stages', { skip: WITHOUT_PYTHON }, () => {
  const red = useNodeRed({ flows });

  for (const [at, { name, exec, payloads, obstacles }] of CORPUS.entries()) {
    test(name, async () => {
      assert.deepEqual(
        convert(exec).obstacles.map((one) => `${one.reason} ${one.name}`),
        obstacles,
      );
      const [before, later] = [red.inputs(`before-${at}`), red.inputs(`after-${at}`)];
      for (const [index, payload] of payloads.entries()) {
        const message = { payload, topic: index, kept: 'as it came' };
        red.send(`exec-${at}`, { ...message });
        red.send(`stage-${at}`, { ...message });
        // The programs of an exec node may overtake each other.
        await until('both are through', () => before.length > index && later.length > index);
      }
      assert.deepEqual(later.map(contentOf), before.map(contentOf));
    });
  }
});

describe('the action for exec nodes', () => {
  test('names what cannot move, and takes a file with predict as it is', () => {
    const named = (exec: Partial<ExecProperties>): string[] =>
      convert(exec).obstacles.map(({ reason, name }) => `${reason} ${name}`);
    const wires = [[], ['errors'], ['codes']];
    assert.deepEqual(named({ command: `python3 ${WORDS} $HOME`, useSpawn: true, wires }), [
      ...['shell $', 'spawn spawn', 'stderr stderr', 'exit return code', 'rc msg.rc'],
    ]);
    assert.deepEqual(named({ command: `python3 ${WORDS} '$5'`, oldrc: true }), []);
    const { properties, obstacles } = convert({ command: 'python3.12 model.py', addpay: 'image', timer: 2.5 });
    assert.deepEqual(properties, {
      ...{ source: 'python', path: MODEL, python: 'python3.12', input: 'image', runTimeoutMs: 2500 },
    });
    assert.equal(obstacles[0]?.reason, 'prints');
  });

  test('refuses what is no Python file', () => {
    for (const command of ['ls -l', 'python3', 'python3 -m http.server', 'python3 -c "print(1)"'])
      assert.throws(() => convert({ command }), /only a command of the form "python3 FILE"/, command);
    assert.throws(() => convert({ command: 'python3 nowhere.py' }), {
      message: `there is no file ${folder}/nowhere.py`,
    });
  });
});
