// Checks the words of the code, as part of `npm run lint`: one name for each type, in all of src and nodes, and an entry in
// docs/glossary.md for each coined word in the types that files on the path of a request export.
import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { root } from './runtimes.mjs';

/** Words of the field or of everyday English: they need no entry in the glossary. */
const STANDARD = new Set(
  `
  answer arrival attempt batch body branch bucket budget byte call caller cause check child choice client clock coalesced
  code codec coding collection content context control count decision delivery deploy described done duration encode ended error
  event example fact failure field fifo file flight flow former function gather growth guarded head header histogram http
  info input key kind lazy life lifetime limit link list listening live log loop machine media memory message meter mode
  model named never node number open option order origin other own parent path phase pipeline policy port prepared
  priority process program progress quantile queue quiet range read reader reading recent record reference replacement
  reply report reporter request response result role router rule schema served service setting signal single slow slowest
  socket source spec start started state status step stream submit submitter supervised supervisor table tag taken target
  task tensor term text time timer timing to token traffic tree triable type unread update usage user value view waiting
  warning watcher wire workload written
  `
    .trim()
    .split(/\s+/),
);

const files = ['src', 'nodes'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true })
    .map((name) => posix.join(folder, name.replaceAll('\\', '/')))
    .filter((name) => name.endsWith('.ts')),
);
const texts = new Map(files.map((file) => [file, readFileSync(join(root, file), 'utf8')]));
const faults = [...typeFaults(), ...wordFaults()];

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
