// Checks the words of the code, as part of `npm run lint`: one name for each type, in all of src and nodes.
// docs/glossary.md has the words themselves.
import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { root } from './runtimes.mjs';

/** Names that several files declare a type by, with the number of these files. Only remove names here, or lower a number. */
const KNOWN_TYPES = {
  Answer: 5,
  Around: 2,
  Asked: 5,
  Batch: 2,
  Call: 2,
  Drawn: 3,
  Elements: 2,
  End: 2,
  Ended: 4,
  Entry: 2,
  ErrorHandler: 3,
  Facts: 2,
  Form: 3,
  Found: 4,
  GateState: 2,
  Gathered: 2,
  Gathering: 2,
  Generation: 2,
  Growth: 2,
  Handler: 3,
  Held: 3,
  Host: 3,
  HttpResponse: 2,
  Input: 2,
  JsonObject: 2,
  Kept: 2,
  Kind: 4,
  Known: 2,
  Opened: 2,
  Outcome: 2,
  Outputs: 2,
  Part: 2,
  Parts: 2,
  Passed: 2,
  Place: 8,
  Places: 2,
  Port: 2,
  Refusal: 2,
  Reply: 2,
  Response: 2,
  Result: 2,
  Row: 2,
  Run: 3,
  Running: 4,
  Schema: 2,
  Series: 2,
  Settings: 4,
  Stage: 2,
  Standing: 2,
  State: 3,
  Step: 3,
  Supply: 2,
  TlsNode: 3,
  Unreadable: 2,
  View: 2,
  Waiting: 5,
};

const files = ['src', 'nodes'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true })
    .map((name) => posix.join(folder, name.replaceAll('\\', '/')))
    .filter((name) => name.endsWith('.ts')),
);
const texts = new Map(files.map((file) => [file, readFileSync(join(root, file), 'utf8')]));
const faults = typeFaults();

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
  const added = [...filesOf]
    .filter(([name, holders]) => holders.length > (KNOWN_TYPES[name] ?? 1))
    .map(([name, holders]) => `${holders.join(', ')} each declare a type ${name}: give each its own name`);
  const solved = Object.entries(KNOWN_TYPES)
    .filter(([name, count]) => (filesOf.get(name)?.length ?? 0) < count)
    .map(([name]) => {
      const left = filesOf.get(name)?.length ?? 0;
      return `KNOWN_TYPES in scripts/check-words.mjs: ${left > 1 ? `${name} has ${left} files now` : `remove ${name}`}`;
    });
  return [...added, ...solved];
}
