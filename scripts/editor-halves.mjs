// Makes the editor half of a node: the rows of its form, and what form.js needs for its defaults and validators, from
// the schema of its type. It also loads what all forms need. A page of nodes/ has the order of the rows and the parts that
// are special:
//
//   <rows>name capacity</rows>                       rows of the usual form
//   <row property="path"> ... </row>                 a row with a special part at its end
//   <tasks></tasks>                                  the tasks of known models, and the presets of ONNX models, with their
//                                                    options, as window.modelet.tasks and .presets
//   <compiled>core/queues/sizing as sizing</compiled>    the exports of a compiled file of src that imports only files beside
//                                                    it, as window.modelet.sizing
//   <library>js-sha256/build/sha256.cjs as sha256</library>   a CommonJS file of a package, as window.modelet.sha256
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** The keywords of a property that the editor needs. The rest is in its row, or for deploys only. */
const FOR_EDITOR = [
  ...['type', 'default', 'enum', 'minimum', 'maximum'],
  ...['format', 'numeric', 'needed', 'refersTo', 'onlyIf'],
];
/** What all forms need. */
const HEAD = `<link rel="stylesheet" href="resources/@modelet/node-red-pipeline/form.css">
<script type="module" src="resources/@modelet/node-red-pipeline/define-node.js"></script>
`;
const require = createRequire(import.meta.url);
const WIDE = 'style="width: calc(100% - var(--modelet-indent))"';

/**
 * Reads what the halves are made of.
 * @param dist the compiled package
 * @param root the package
 */
export async function readSources(dist, root) {
  const folder = join(dist, 'src', 'config', 'schemas');
  const names = readdirSync(folder).filter((name) => name.endsWith('.js') && name !== 'node-schema.js');
  const types = names.map((name) => name.slice(0, -'.js'.length));
  const load = async (name) => (await import(pathToFileURL(join(folder, `${name}.js`)).href))[name];
  return {
    schemas: Object.fromEntries(await Promise.all(types.map(async (name) => [`modelet-${name}`, await load(name)]))),
    scriptOf: readFormats(join(dist, 'src', 'config', 'formats')),
    compiled: (file) => {
      const { exportsOf, script } = filesIn(dirname(join(dist, 'src', file)));
      const name = `${basename(file)}.js`;
      return script([name], exportsOf(name));
    },
    tasks: (await import(pathToFileURL(join(dist, 'src', 'config', 'tasks', 'task-options.js')).href)).DIALOG_TASKS,
    presets: (await import(pathToFileURL(join(dist, 'src', 'config', 'tasks', 'presets.js')).href)).DIALOG_PRESETS,
    catalogOf: (type) => {
      const file = join(root, 'nodes', 'locales', 'en-US', `${type}.json`);
      return JSON.parse(readFileSync(file, 'utf8'))[type];
    },
  };
}

/** Returns the page of a type for the editor; `page` is the one of nodes/. */
export function editorHalf(page, type, { schemas, scriptOf, compiled, tasks, presets, catalogOf }) {
  const schema = schemas[type];
  if (!schema) return page;
  const row = rowMaker(type, schema, catalogOf(type));
  const withRows = page
    .replace(/( *)<rows>([^<]*)<\/rows>/g, (_all, indent, names) =>
      names
        .trim()
        .split(/\s+/)
        .map((name) => row(name, '', indent))
        .join('\n'),
    )
    .replace(/( *)<row property="(\w+)">\n?([\s\S]*?) *<\/row>/g, (_all, indent, name, special) =>
      row(name, special, indent),
    )
    .replace('<tasks></tasks>', () => {
      const tables = `{ tasks: ${JSON.stringify(tasks)}, presets: ${JSON.stringify(presets)} }`;
      return `<script type="text/javascript">\nObject.assign((window.modelet ??= {}), ${tables});\n</script>`;
    })
    .replace(/<compiled>(\S+) as (\w+)<\/compiled>/g, (_all, file, name) => attach(compiled(file), name))
    .replace(/<library>(\S+) as (\w+)<\/library>/g, (_all, file, name) => library(file, name));
  const table = JSON.stringify(tableOf(schema, catalogOf(type)));
  const declared = Object.values(schema.properties).map(({ format }) => format);
  // The name of a message property is for Node-RED to check.
  const formats = [...new Set(declared)].filter((format) => format && format !== 'property');
  const script = [
    '<script type="text/javascript">',
    'window.modelet ??= {};',
    ...(formats.length > 0 ? [`Object.assign((window.modelet.formats ??= {}), ${scriptOf(formats)});`] : []),
    `(window.modelet.tables ??= {})['${type}'] = ${table};`,
    '</script>\n\n',
  ].join('\n');
  return HEAD + withRows.replace('<script type="text/html"', () => `${script}<script type="text/html"`);
}

/** Returns the script that attaches the export of a CommonJS file to `window.modelet`. */
function library(file, name) {
  const text = readFileSync(require.resolve(file), 'utf8');
  const load = `(() => {\nconst module = {};\n${text}\nreturn module.exports;\n})()`;
  return attach(load, name);
}

function attach(value, name) {
  return `<script type="text/javascript">\n(window.modelet ??= {}).${name} = ${value};\n</script>`;
}

/** Properties and credentials as form.js reads them. */
function tableOf({ properties, credentials = {} }, { tip = {} }) {
  const known = (name, declared) => {
    const kept = Object.fromEntries(FOR_EDITOR.filter((key) => key in declared).map((key) => [key, declared[key]]));
    return isExplained(declared, tip[name]) ? { ...kept, isExplained: true } : kept;
  };
  return {
    properties: Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, known(name, one)])),
    credentials: Object.fromEntries(
      Object.entries(credentials).map(([name, { type, onlyIf }]) => [name, { type, onlyIf }]),
    ),
  };
}

/** Whether each choice has a tip. */
function isExplained(declared, tip) {
  return declared.enum !== undefined && typeof tip === 'object';
}

function rowMaker(type, { properties, credentials = {} }, catalog) {
  const prefix = isConfigType(type) ? 'node-config-input' : 'node-input';
  const has = (group, key) => typeof catalog[group]?.[key] === 'string';
  return (name, special, indent) => {
    const declared = properties[name] ?? credentials[name];
    if (!declared) throw new Error(`nodes/${type}.html: the schema has no property ${name}`);
    const isName = name === 'name';
    const label = isName ? 'node-red:common.label.name' : `${type}.label.${name}`;
    if (!isName && !has('label', name)) throw new Error(`${type}: the catalog has no label.${name}`);
    const id = `${prefix}-${name}`;
    const lines = [
      `<div class="form-row" data-row="${name}">`,
      `  <label for="${id}"><i class="fa fa-${declared.icon ?? 'tag'}"></i> <span data-i18n="${label}"></span></label>`,
      ...field({ type, name, id, declared, isSecret: name in credentials, has }),
      ...hint(type, name, declared, catalog.tip?.[name]),
      ...special.split('\n').filter((line) => line.trim() !== ''),
      '</div>',
    ];
    return lines.map((line) => indent + line).join('\n');
  };
}

function isConfigType(type) {
  return ['modelet-runtime', 'modelet-broker', 'modelet-keys'].includes(type);
}

function field({ type, name, id, declared, isSecret, has }) {
  if (declared.enum) {
    const option = (choice) => `    <option value="${choice}" data-i18n="${type}.${name}.${choice}"></option>`;
    return [`  <select id="${id}">`, ...declared.enum.map(option), '  </select>'];
  }
  if (declared.type === 'boolean') return [`  <input type="checkbox" id="${id}">`];
  const isNumber =
    declared.type === 'integer' || declared.type === 'number' || declared.numeric || declared.format === 'workers';
  const isJson = declared.format === 'json' || declared.format === 'json-schema';
  const isTyped = /property$/.test(declared.format ?? '');
  const attributes = [
    `type="${declared.type === 'password' ? 'password' : 'text'}" id="${id}"`,
    isNumber ? 'class="modelet-number"' : isJson ? 'class="modelet-json"' : '',
    placeholder({ type, name, declared, isSecret, isTyped, has }),
    isTyped || declared.refersTo ? WIDE : '',
    isSecret ? 'autocomplete="off"' : '',
  ];
  const input = `  <input ${attributes.filter(Boolean).join(' ')}>`;
  const edit = `  <button type="button" id="${type}-${name}-edit" class="red-ui-button"><i class="fa fa-ellipsis-h"></i></button>`;
  return [input + unit(type, declared.unit, has), ...(isJson ? [edit] : [])];
}

/** A blank field is at its default, so that is what it shows unless the catalog has something better. */
function placeholder({ type, name, declared, isSecret, isTyped, has }) {
  if (name === 'name') return 'data-i18n="[placeholder]node-red:common.label.name"';
  if (has('placeholder', name)) return `data-i18n="[placeholder]${type}.placeholder.${name}"`;
  if (isSecret) return `data-i18n="[placeholder]${type}.placeholder.none"`;
  const isText = declared.type === 'string' && !isTyped;
  return isText && declared.default ? `placeholder="${declared.default}"` : '';
}

function unit(type, text, has) {
  if (!text) return '';
  if (has('unit', text)) return `<span class="modelet-unit" data-i18n="${type}.unit.${text}"></span>`;
  return `<span class="modelet-unit">${text}</span>`;
}

/** form.js writes the tip of the chosen value. */
function hint(type, name, declared, tip) {
  if (typeof tip === 'string') return [`  <div class="modelet-hint" data-i18n="[html]${type}.tip.${name}"></div>`];
  return isExplained(declared, tip) ? ['  <div class="modelet-hint"></div>'] : [];
}

/**
 * Reads compiled files of a folder, which import only each other. `script` returns some of them, with what they import, as
 * an expression whose value has these entries.
 */
function filesIn(folder) {
  const read = (name) => readFileSync(join(folder, name), 'utf8');
  const exportsOf = (file) => [...read(file).matchAll(/^export (?:function|const) (\w+)/gm)].map(([, name]) => name);
  const importsOf = (file) => [...read(file).matchAll(/^import .* from '(.*)';$/gm)].map(([, path]) => path);
  const withImports = (file) => [...importsOf(file).flatMap((path) => withImports(path.replace('./', ''))), file];
  const bodyOf = (file) => {
    const outside = importsOf(file).find((path) => !path.startsWith('./'));
    if (outside) throw new Error(`${file}: a browser has no ${outside}`);
    const text = read(file)
      .replace(/^import .*\n/gm, '')
      .replace(/^export \{\};\n/gm, '')
      .replace(/^export /gm, '');
    return text.replace(/^ *\/\*\*[\s\S]*?\*\/\n/gm, '').trim();
  };
  const needed = (files) => [...new Set(files.flatMap(withImports))];
  const script = (files, entries) =>
    `(() => {\n${needed(files).map(bodyOf).join('\n')}\nreturn { ${entries.join(', ')} };\n})()`;
  return { read, exportsOf, needed, script };
}

/** Reads the compiled formats. @returns a function that gives those of a page as script, with all that their files export */
function readFormats(folder) {
  const { read, exportsOf, needed, script } = filesIn(folder);
  const files = readdirSync(folder).filter((name) => name.endsWith('.js'));
  const table = Object.fromEntries(
    [...read('formats.js').matchAll(/^ +'?([\w-]+)'?: (\w+),$/gm)].map(([, format, parse]) => [format, parse]),
  );
  return (formats) => {
    const own = formats.map((format) => files.find((file) => exportsOf(file).includes(table[format])));
    const entries = [...needed(own).flatMap(exportsOf), ...formats.map((format) => `'${format}': ${table[format]}`)];
    return script(own, entries);
  };
}
