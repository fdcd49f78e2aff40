// Checks the words of the project, as part of `npm run lint`: one name for each type, in all of src and nodes; an entry in
// docs/glossary.md for each coined word in the types that files on the path of a request export; messages that name
// settings as the dialogs label them; and no phrases that make a reader stop.
import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { root } from './runtimes.mjs';

/** Words of the field or of everyday English: they need no entry in the glossary. */
const STANDARD = new Set(
  `
  answer arrival attempt batch body branch bucket budget byte call caller cause check child choice chunk client clock coalesced
  code codec coding collection content context control count decision delivery deploy described done duration encode ended error
  event example fact failed failure field fifo file flight flow former function garbage gather growth guarded head header heap histogram http
  info input key kind lazy life lifetime limit link list listening live log loop machine media memory message meter mode
  model named never node number open option order origin other own parent path phase pipeline policy port prepared
  priority process program progress quantile queue range read reader reading recent record reference replacement
  reply report reporter request response result role router rule schema served service setting signal single slow slowest
  socket source spec start started state status step stream submit submitter supervised supervisor table tag taken target
  task tensor term text time timer timing to token traffic tree triable type unread update usage user value view waiting
  warning watcher wire workload written
  `
    .trim()
    .split(/\s+/),
);

/** Texts that name settings by their properties: reference, or read where no dialog is. */
const NAME_PROPERTIES = [
  [/^src\/config\/schemas\//, 'descriptions for the reference pages'],
  ['src/observe/export/metrics.ts', 'help of metrics, which has the property in brackets behind the label'],
];
/** Phrases without a clear subject, with what to say instead. */
const PHRASES = [
  [/\b(?:no|some|any|every)body\b/i, 'say who: no client, a user, a process'],
  [/\b(?:is|are) none\b(?! of)/i, 'say what is missing or invalid'],
  [/\bof (?:its|their) own\b/i, '"its own X", "a separate X"'],
  [/\bone that\b/i, 'repeat the noun'],
  [/\bwhoever\b/i, 'say who'],
  [/\bunder way\b/i, '"open" or "in progress"'],
];
/** Pages that quote titles and faults. */
const QUOTES = /^docs\/(?:benchmarks|faults)\.md$/;

/** Properties that a modelet's own code may have, too. */
const OF_CODE = new Set(['inputSchema', 'outputSchema']);

const files = ['src', 'nodes'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true })
    .map((name) => posix.join(folder, name.replaceAll('\\', '/')))
    .filter((name) => name.endsWith('.ts')),
);
const texts = new Map(files.map((file) => [file, readFileSync(join(root, file), 'utf8')]));
const faults = [...typeFaults(), ...wordFaults(), ...messageFaults(), ...phraseFaults()];

for (const fault of faults) console.error(fault);
if (faults.length > 0) process.exit(1);
console.log(`Checked the words of ${files.length} files.`);

/** Returns the names of types, private ones included, that several files declare. */
function typeFaults() {
  const declared = /^\s*(?:export )?(?:declare )?(?:abstract )?(?:class|interface|type|enum) (\w+)(?=[\s<{=])/gm;
  const filesOf = new Map();
  for (const [file, text] of texts) {
    for (const name of new Set([...text.matchAll(declared)].map(([, found]) => found)))
      filesOf.set(name, [...(filesOf.get(name) ?? []), file]);
  }
  return [...filesOf]
    .filter(([, holders]) => holders.length > 1)
    .map(([name, holders]) => `${holders.join(', ')} each declare a type ${name}: give each its own name`);
}

/** Returns the words in exported types of the path of a request that neither the glossary nor STANDARD has. */
function wordFaults() {
  const read = (page) => readFileSync(join(root, 'docs', page), 'utf8');
  const coined = new Set(
    [...read('glossary.md').matchAll(/^\| ([^|]+) \|/gm)].flatMap(([, words]) => words.toLowerCase().split(/\W+/)),
  );
  const path = new Set(
    [...read('architecture.md').matchAll(/^\| `((?:src|nodes)\/[^`]+)` \|/gm)].map(([, file]) => file),
  );
  const exported = /^export (?:declare )?(?:abstract )?(?:class|interface|type|enum) (\w+)/gm;
  const isKnown = (word) =>
    [word, word.replace(/s$/, ''), word.replace(/es$/, ''), word.replace(/ies$/, 'y')].some(
      (form) => coined.has(form) || STANDARD.has(form),
    );
  return [...path]
    .flatMap((file) => [...(texts.get(file) ?? '').matchAll(exported)].map(([, name]) => [file, name]))
    .flatMap(([file, name]) => {
      const unknown = name.split(/(?=[A-Z])/).filter((word) => !isKnown(word.toLowerCase()));
      return unknown.map((word) => `${file}: ${name} has the word "${word}", which docs/glossary.md lacks`);
    });
}

/** Returns the messages that name a setting by its property. `inLabels` replaces a property in front of a fault, `maxSys: must be`. */
function messageFaults() {
  const catalogs = join(root, 'nodes', 'locales', 'en-US');
  const named = readdirSync(catalogs)
    .filter((file) => file.endsWith('.json'))
    .flatMap((file) => Object.values(JSON.parse(readFileSync(join(catalogs, file), 'utf8'))))
    .flatMap(({ label = {} }) => Object.keys(label))
    .filter((name) => /[A-Z]|^libs$/.test(name) && !OF_CODE.has(name));
  const property = new RegExp(`(?<![\\w.])(?:${[...new Set(named)].join('|')})(?!\\w|: )`);
  return [...texts]
    .filter(
      ([file]) => !NAME_PROPERTIES.some(([place]) => (typeof place === 'string' ? place === file : place.test(file))),
    )
    .flatMap(([file, text]) =>
      messagesIn(text)
        .filter((message) => property.test(message))
        .map((message) => `${file}: "${message}" names a setting by its property: name it as its dialog labels it`),
    );
}

/** Returns the phrases in comments, names of tests, texts of the editor, examples and pages. */
function phraseFaults() {
  const inFolder = (folder, ending) =>
    readdirSync(join(root, folder), { recursive: true })
      .map((name) => posix.join(folder, name.replaceAll('\\', '/')))
      .filter((name) => ending.test(name));
  const folders = ['src', 'nodes', 'resources', 'scripts', 'test'];
  const code = new Set(folders.flatMap((folder) => inFolder(folder, /\.(?:ts|m?js|py)$/)));
  const prose = [
    ...inFolder('docs', /\.md$/).filter((file) => !QUOTES.test(file)),
    ...inFolder('src', /\.md$/),
    ...inFolder('nodes/locales/en-US', /\.(?:json|html)$/),
    ...inFolder('examples', /\.json$/),
    ...['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md'],
  ];
  const isProse = /^\s*(?:\/\/|\/?\*|#)|\b(?:test|describe)\(['`]/;
  return [...code, ...prose].flatMap((file) =>
    readFileSync(join(root, file), 'utf8')
      .split('\n')
      .flatMap((line, index) => {
        if (code.has(file) && !isProse.test(line)) return [];
        const found = PHRASES.filter(([phrase]) => phrase.test(line));
        return found.map(([phrase, instead]) => `${file}:${index + 1}: "${phrase.exec(line)[0]}": ${instead}`);
      }),
  );
}

/** Returns the texts of several words in quotes, without what templates insert. */
function messagesIn(text) {
  const inserted = /\$\{[^{}]*\}/g;
  // Twice, because what a template inserts may be a template.
  const code = text
    .replaceAll(/^\s*(?:\/\/|\/?\*).*$/gm, '')
    .replaceAll(inserted, '…')
    .replaceAll(inserted, '…');
  return [...code.matchAll(/'((?:[^'\\\n]|\\.)*)'|`([^`]*)`/g)]
    .map(([, quoted, template]) => quoted ?? template ?? '')
    .filter((message) => /\S \S/.test(message));
}
