/** Makes the definition of a Python stage from that of an exec node that runs `python3 FILE`, with all that does not carry over. */
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { ModeletError } from '../../core/errors.ts';

/** The properties of an exec node that count. */
export interface ExecProperties {
  readonly command: string;
  /** Name of the message property that follows the command; '': none. */
  readonly addpay: string;
  readonly append: string;
  readonly useSpawn: boolean;
  /** Whether messages have no `rc`, as in old versions. */
  readonly oldrc: boolean;
  /** In seconds; 0: none. */
  readonly timer: number;
  readonly wires: readonly (readonly string[])[];
}

/** Why a command cannot move as it is. The editor has a sentence for each. */
type ExecReason = 'shell' | 'spawn' | 'stderr' | 'exit' | 'rc' | 'prints';

interface ExecObstacle {
  readonly tab: 'command';
  readonly line: 1;
  readonly reason: ExecReason;
  readonly name: string;
}

interface ConvertedExec {
  readonly properties: Readonly<Record<string, string | number>>;
  readonly obstacles: readonly ExecObstacle[];
}

const INTERPRETER = /(?:^|\/)python[\d.]*$/;
/** Characters that a shell replaces or takes for itself, outside of quotes. */
const SHELL = /[|&;<>()$`\\*?~#!{}[\]]/;
const WORD = /(?:"[^"]*"|'[^']*'|[^\s"'])+/g;
const PREDICT = /^(?:async )?def predict\(/m;

/**
 * @param cwd the folder of Node-RED's process, at which the exec node starts programs
 * @throws ModeletError for a command that is not Python with a file that is there
 */
export function stageOfExec(node: ExecProperties, cwd: string): ConvertedExec {
  const [python = '', ...rest] = wordsOf(node.command);
  if (rest[0] === '-u') rest.shift();
  const [given = '', ...args] = rest;
  if (!INTERPRETER.test(python) || given === '' || given.startsWith('-')) {
    throw new ModeletError(
      'bad_request',
      `only a command of the form "python3 FILE" can become a stage: ${node.command}`,
    );
  }
  const file = resolve(cwd, given);
  if (!existsSync(file)) throw new ModeletError('bad_request', `there is no file ${file}`);
  const common = { python, input: node.addpay || 'payload', runTimeoutMs: Math.round(node.timer * 1000) };
  if (PREDICT.test(readFileSync(file, 'utf8'))) {
    const obstacles = [obstacle('prints', given), ...obstaclesOf(node)];
    return { properties: { ...common, source: 'python', path: file }, obstacles };
  }
  const appended = wordsOf(node.append).map(literal);
  const line = ['FILE', ...args.map(literal), ...(node.addpay === '' ? [] : ['*words(input)']), ...appended].join(', ');
  const tabs = { setup: setupFor(file), code: codeFor(line), teardown: '' };
  return { properties: { ...common, source: 'python-code', ...tabs }, obstacles: obstaclesOf(node) };
}

/** Reads the properties of an exec node as the editor has them: Node-RED takes texts for some of them. */
export function execProperties(fields: Readonly<Record<string, unknown>>): ExecProperties {
  const { command, append, addpay = true, useSpawn, oldrc, timer, wires } = fields;
  return {
    command: String(command ?? '').trim(),
    append: String(append ?? ''),
    addpay: addpay === true ? 'payload' : String(addpay || ''),
    useSpawn: String(useSpawn) === 'true',
    oldrc: String(oldrc) === 'true',
    timer: Number(timer) || 0,
    wires: (Array.isArray(wires) ? wires : []) as string[][],
  };
}

function obstaclesOf({ command, append, useSpawn, oldrc, wires }: ExecProperties): ExecObstacle[] {
  const special = SHELL.exec(`${command} ${append}`.replaceAll(/'[^']*'/g, ''))?.[0];
  return [
    ...(special === undefined ? [] : [obstacle('shell', special)]),
    ...(useSpawn ? [obstacle('spawn', 'spawn')] : []),
    ...((wires[1]?.length ?? 0) > 0 ? [obstacle('stderr', 'stderr')] : []),
    ...((wires[2]?.length ?? 0) > 0 ? [obstacle('exit', 'return code')] : []),
    ...(oldrc ? [] : [obstacle('rc', 'msg.rc')]),
  ];
}

function obstacle(reason: ExecReason, name: string): ExecObstacle {
  return { tab: 'command', line: 1, reason, name };
}

/** Returns the words of a command without their quotes. */
function wordsOf(command: string): string[] {
  return (command.match(WORD) ?? []).map((word) => word.replaceAll(/"([^"]*)"|'([^']*)'/g, '$1$2'));
}

/** Returns text as Python writes it: JSON is valid there. */
function literal(text: string): string {
  return JSON.stringify(text);
}

function setupFor(file: string): string {
  return `# The file runs once for each message, in a worker whose Python has started already.
# A function predict(input) in it would make the source "Python file" possible: that loads once.
import os, runpy, shlex, sys, tempfile

FILE = ${literal(file)}
sys.path.insert(0, os.path.dirname(FILE))

def text(value):
    if isinstance(value, bytes): return value.decode("utf-8", "replace")
    if isinstance(value, bool): return str(value).lower()
    if isinstance(value, list): return ",".join(map(text, value))
    return str(value)

def words(value):
    return [] if value is None else shlex.split(text(value))`;
}

/** Takes what the file prints from its descriptor, so that it includes the output of programs that it starts. */
function codeFor(line: string): string {
  return `sys.argv[:] = [${line}]
sys.stdout.flush()
log = os.dup(1)
with tempfile.TemporaryFile() as printed:
    os.dup2(printed.fileno(), 1)
    try:
        runpy.run_path(FILE, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0): raise RuntimeError(f"{FILE} ended with {end.code}")
    finally:
        sys.stdout.flush()
        os.dup2(log, 1)
        os.close(log)
    printed.seek(0)
    result = printed.read()
try:
    return result.decode("utf-8")
except UnicodeDecodeError:
    return result`;
}
