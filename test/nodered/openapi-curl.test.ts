/** The curl lines of the OpenAPI page work when people run them as they are, with a file called FILE. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { func, httpIn, httpOut, runtime, stage, TAB } from '../fixtures/flow.ts';
import { type FlowNode, NodeRed } from '../fixtures/node-red.ts';

const run = promisify(execFile);

interface Kind {
  readonly name: string;
  readonly method?: string;
  /** Of the path, behind the kind's name. */
  readonly path?: string;
  readonly mediaTypes?: string;
  readonly schema?: object;
  readonly examples?: readonly unknown[];
  readonly input?: string;
  /** Code of a function node in front of the stage. */
  readonly before?: string;
  readonly upload?: boolean;
  /** What FILE has in it. */
  readonly file?: Buffer;
}

const PAIR = {
  type: 'object',
  required: ['count', 'kind', 'list', 'at'],
  properties: {
    count: { type: 'integer', minimum: 3 },
    kind: { enum: ['small', "it's"] },
    list: { type: 'array', minItems: 4, items: { $ref: '#/$defs/share' } },
    at: { type: 'string', format: 'date-time' },
    other: { type: 'number' },
  },
  additionalProperties: false,
  $defs: { share: { type: 'number', exclusiveMinimum: 0, maximum: 1 } },
};
const TEXTS = { type: 'object', required: ['a', 'b'], properties: { a: { type: 'string' }, b: { enum: ['x & y'] } } };
const MSGPACK = Buffer.from([0x81, 0xa1, 0x61, 0x01]);

const KINDS: readonly Kind[] = [
  { name: 'anything' },
  { name: 'object', schema: PAIR },
  {
    name: 'merged',
    schema: {
      type: 'object',
      allOf: [TEXTS, { type: 'object', required: ['c'], properties: { c: { type: 'boolean' } } }],
    },
  },
  { name: 'number', schema: { type: 'number', minimum: 2 } },
  { name: 'text', schema: { type: 'string', minLength: 9 } },
  { name: 'null', schema: { type: 'null' } },
  { name: 'example', schema: { type: 'array' }, examples: [["it's", 1]] },
  { name: 'bare-example', schema: { type: 'boolean' }, examples: [false] },
  { name: 'property', input: 'payload.deep.value', schema: PAIR },
  { name: 'linked-json', mediaTypes: 'application/ld+json', schema: PAIR },
  { name: 'msgpack', mediaTypes: 'application/msgpack', file: MSGPACK },
  ...['image/*', 'audio/*', 'video/*', 'text/*', 'application/*', 'font/*', '*/*', 'image/jpeg'].map((mediaTypes) => ({
    name: mediaTypes.replace(/\W+/g, '-'),
    mediaTypes,
  })),
  { name: 'form', mediaTypes: 'application/x-www-form-urlencoded', schema: TEXTS },
  { name: 'open-form', mediaTypes: 'application/x-www-form-urlencoded' },
  { name: 'file', input: 'req.files[0].buffer', upload: true },
  { name: 'file-by-function', before: 'msg.payload = msg.req.files[0].buffer; return msg;', upload: true },
  { name: 'upload-of-json', schema: PAIR, upload: true },
  { name: 'query', method: 'get', schema: TEXTS },
  { name: 'get-nothing', method: 'get' },
  { name: 'put', method: 'put', schema: PAIR },
  { name: 'patch', method: 'patch', schema: PAIR },
  { name: 'put-image', method: 'put', mediaTypes: 'image/*', upload: true },
  { name: 'delete', method: 'delete' },
  { name: 'parameters', path: '/:id/of/:kind?' },
  { name: 'digits', path: '/:id(\\d+)' },
];

function flow(kind: Kind): FlowNode[] {
  const { name, method = 'post', path = '', mediaTypes, schema, examples, input, before: code, upload = false } = kind;
  const takes = {
    ...(mediaTypes ? { mediaTypes } : {}),
    ...(input ? { input } : {}),
    inputSchema: schema ? JSON.stringify(schema) : '',
  };
  const [first, model] = [code ? `function ${name}` : `stage ${name}`, `stage ${name}`];
  const source = examples ? { source: 'file', path: `${name}.mjs` } : {};
  return [
    { ...httpIn(`in ${name}`, `/${name}${path}`, first), method, upload },
    ...(code ? [func(first, code, model)] : []),
    stage(model, 'return { took: typeof input };', `out ${name}`, { ...takes, ...source }),
    httpOut(`out ${name}`),
  ];
}

let red: NodeRed;
let folder: string;
let lines: string[];
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'modelet-curl-'));
  red = await NodeRed.start();
  for (const { name, examples } of KINDS) {
    if (!examples) continue;
    const code = `export default Object.assign(() => ({ took: 'it' }), ${JSON.stringify({ examples })});`;
    await writeFile(join(red.userDir, `${name}.mjs`), code);
  }
  await red.deploy([TAB, runtime(), ...KINDS.flatMap(flow)]);
  await red.whenReady();
  const page = await (await fetch(`${red.url}/admin/modelets/openapi`)).text();
  lines = [...page.matchAll(/<pre>(curl [^<]*)<\/pre>/g)].map(([, line]) => unescaped(line as string));
});
after(async () => {
  await red.stop();
  await rm(folder, { recursive: true, force: true });
});

function unescaped(html: string): string {
  return html.replace(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code)));
}

for (const { name, file = Buffer.from('some bytes \xff', 'latin1') } of KINDS) {
  test(`the curl line of ${name} gets its answer`, async () => {
    const own = lines.filter((line) => new RegExp(`/${name}['/?]`).test(line));
    assert.ok(own.length > 0, `no line for ${name} in ${lines.join('\n')}`);
    await writeFile(join(folder, 'FILE'), file);
    for (const line of own) {
      const { stdout } = await run(
        'sh',
        ['-c', `${line} --silent --show-error --max-time 30 --write-out ' %{http_code}'`],
        {
          cwd: folder,
        },
      );
      // A caller that sends msgpack gets msgpack.
      assert.match(stdout, /took.*(?:string|object|it|number|boolean|undefined).* 200$/, `${line} got ${stdout}`);
    }
  });
}
