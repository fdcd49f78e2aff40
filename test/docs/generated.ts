/**
 * Makes the tables of the documentation that repeat what the code declares. A page has a place for each:
 *
 *   <!-- generated: properties modelet-stage (npm run docs) -->
 *   ...
 *   <!-- end -->
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { TASK_NAMES, type TaskName } from '../../src/config/stage-source.ts';
import { GIVES, TAKES } from '../../src/config/tasks/presets.ts';
import { TASKS, type TaskForm, type TaskOption } from '../../src/config/tasks/tasks.ts';
import { ERROR_CODES, HTTP_STATUS } from '../../src/core/errors.ts';
import { METRICS } from '../../src/observe/export/metrics.ts';
import { FRAME_TYPES, WIRE_VERSION } from '../../src/wire/frames/frames.ts';
import { NODE_SCHEMAS, type NodeSchema, type NodeType } from '../fixtures/node-schemas.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { Fails, FORM_ROWS, type FormRow } from '../fixtures/value-forms.ts';
import { BADGES } from './badges.ts';
import { ERROR_CAUSES } from './error-causes.ts';
import { subjectRows } from './test-files.ts';

type Property = NodeSchema['properties'][string];

const PLACE = /(<!-- generated: ([\w -]+?) \(npm run docs\) -->\n)([\s\S]*?)(<!-- end -->)/g;
const MS_PER_DAY = 24 * 60 * 60 * 1000;

const TABLES: Readonly<Record<string, (argument: string) => string>> = {
  properties: (type) => properties(type as NodeType),
  errors: () => table(['code', 'HTTP', 'cause', 'what to do'], ERROR_CODES.map(errorRow)),
  metrics: (group) => metrics(group),
  badges: () => table(['node', 'badge', 'colour', 'meaning'], BADGES.map(badgeRow)),
  frames: () => table(['number', 'type'], FRAME_TYPES.map(frameRow)),
  forms: () =>
    table(['value', 'in JavaScript', 'in Python', 'in JSON', 'in msgpack'], Object.entries(FORM_ROWS).map(formRow)),
  tasks: () => table(['task', 'takes', 'gives', 'options', 'several in a call'], TASK_NAMES.map(taskRow)),
  presets: () => table(['preset', 'option', 'default', 'meaning', 'values'], presetRows()),
  'tests-by-subject': () => table(['subject', 'test files'], subjectRows()),
  version: () => `The version of the protocol is ${WIRE_VERSION}.`,
};

/** Returns the page with its tables made anew. @throws Error for a place whose name is not known. */
export function withTables(page: string): string {
  return page.replace(PLACE, (_all, head: string, what: string, _old: string, end: string) => {
    const [kind = '', ...argument] = what.split(' ');
    const make = TABLES[kind];
    if (!make) throw new Error(`nothing is known to generate for "${what}"`);
    return `${head}\n${make(argument.join(' '))}\n\n${end}`;
  });
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n');
}

/** The labels of a node's dialog, by property. */
function labelsOf(type: NodeType): Readonly<Record<string, string>> {
  const file = join(repositoryRoot, 'nodes', 'locales', 'en-US', `${type}.json`);
  const texts = JSON.parse(readFileSync(file, 'utf8')) as Record<string, { label?: Record<string, string> }>;
  return { name: 'Name', ...texts[type]?.label };
}

function properties(type: NodeType): string {
  const labels = labelsOf(type);
  const rows = Object.entries(NODE_SCHEMAS[type].properties).map(([name, property]) => [
    `\`${name}\``,
    labels[name] ? `*${labels[name]}*` : '',
    defaultOf(property),
    property.description,
    allowed(property),
  ]);
  return table(['property', 'in the dialog', 'default', 'meaning', 'values'], rows);
}

const FORMS: Readonly<Record<TaskForm, string>> = {
  scores: '`[{label, score}]`',
  ranking: '`[{label, score}]`',
  boxes: '`[{label, score, box: {xmin, ymin, xmax, ymax}}]`',
  masks: '`[{label, score, mask}]`, a mask as a PNG file',
  depth: '`{width, height, depth}`: a number for each pixel',
  embedding: 'a vector',
  entities: '`[{label, score, word}]`',
  answers: '`[{answer, score}]`',
  words: 'parts, then `{text, finish_reason, usage}`',
  transcript: '`{text}`, with times `{text, parts: [{text, start, end}]}`',
};

function taskRow(name: TaskName): string[] {
  const { input, form, options, together } = TASKS[name];
  const each = Object.entries(options).map(([option, { default: usual, description }]) => {
    const value = usual === undefined || usual === '' ? '' : ` (${String(usual)})`;
    return `\`${option}\`${value}: ${description}`;
  });
  return [`\`${name}\``, input, FORMS[form], each.join('<br>'), together ? 'yes' : 'no'];
}

/** The options of the presets of ONNX stages. Those that a request may set, too, have a star. */
function presetRows(): string[][] {
  const rows = (preset: string, options: Readonly<Record<string, TaskOption>>, mark = ''): string[][] =>
    Object.entries(options).map(([name, { default: usual, description, enum: choices }]) => {
      const values = (choices ?? []).map((choice) => `\`${choice}\``).join(', ');
      return [
        preset,
        `\`${name}\`${mark}`,
        usual === '' || Array.isArray(usual) ? '' : String(usual),
        description,
        values,
      ];
    });
  return [
    ...Object.entries(TAKES).flatMap(([name, options]) => rows(`takes ${name}`, options)),
    ...Object.entries(GIVES).flatMap(([name, { ofStage, ofRequest }]) => [
      ...rows(`gives ${name}`, ofStage),
      ...rows(`gives ${name}`, ofRequest, '*'),
    ]),
  ];
}

function defaultOf({ type, default: value }: Property): string {
  if (type === 'array') return '`[]`';
  return value === '' ? '' : `\`${String(value)}\``;
}

function allowed({ type, enum: choices, minimum, maximum }: Property): string {
  if (choices) return choices.map((choice) => `\`${choice}\``).join(', ');
  if (type === 'boolean') return '`true`, `false`';
  if (minimum === undefined || maximum === undefined) return type === 'array' ? 'array' : 'text';
  return `${plain(minimum)} to ${plain(maximum)}`;
}

function plain(value: number): string {
  if (value === MS_PER_DAY) return `${value} (a day)`;
  return value >= 1e12 ? value.toExponential().replace('+', '') : String(value);
}

function errorRow(code: (typeof ERROR_CODES)[number]): string[] {
  const { cause, remedy } = ERROR_CAUSES[code];
  return [`\`${code}\``, String(HTTP_STATUS[code]), cause, remedy];
}

/** @param group `gates`, or `runtimes` for all others */
function metrics(group: string): string {
  const rows = METRICS.filter((metric) => metric.name.startsWith('modelet_gate_') === (group === 'gates')).map(
    ({ name, type, labels, help }) => [`\`${name}\``, type, labels.join(', '), help],
  );
  return table(['metric', 'type', 'labels besides `runtime`', 'meaning'], rows);
}

function frameRow(type: string, number: number): string[] {
  return [String(number), `\`${type}\``];
}

function badgeRow({ node, badge, meaning }: (typeof BADGES)[number]): string[] {
  return [node, `\`${badge?.text}\``, `${badge?.fill} ${badge?.shape}`, meaning];
}

function formRow([what, { js, py, json, msgpack = json }]: [string, FormRow]): string[] {
  const forms = [code(formOf(json)), msgpack === json ? 'the same' : code(formOf(msgpack))];
  // Braces of an object are those of a block without parentheses.
  return [what, code(js?.replace(/^\(([{[].*)\)$/, '$1') ?? ''), code(py ?? ''), ...forms];
}

function code(text: string): string {
  return text && `\`${text.replaceAll('|', '\\|')}\``;
}

/** Returns a value as its answer has it: JSON, in which msgpack's own types are written as in JavaScript. */
function formOf(value: unknown): string {
  if (value instanceof Fails) return 'modelet_failed';
  if (value instanceof Uint8Array) return `bytes ${Buffer.from(value).toString('hex')}`.trim();
  if (value instanceof Date) return `timestamp ${value.toISOString()}`;
  if (Array.isArray(value)) return `[${value.map(formOf).join(', ')}]`;
  if (value !== null && typeof value === 'object') {
    const members = Object.entries(value).map(([key, member]) => `${JSON.stringify(key)}: ${formOf(member)}`);
    return `{${members.join(', ')}}`;
  }
  if (Object.is(value, -0)) return '-0';
  return typeof value === 'string' ? JSON.stringify(value) : String(value);
}
