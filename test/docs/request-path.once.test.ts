/** docs/architecture.md lists the files that a request passes, as measured; their number only falls. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { readPage } from './pages.ts';
import { measurePaths, type Step, type Way } from './path/measure.ts';
import { filesOf, listedFor, WAYS } from './path/page.ts';

/** Most files on each way. Lower these when the path gets shorter: the goals are 55, 60 and 72. */
const MOST_FILES: Readonly<Record<Way, number>> = { listener: 50, compiled: 54, flow: 65 };

let paths: Readonly<Record<Way, readonly Step[]>>;
before(async () => {
  paths = await measurePaths();
});

for (const way of WAYS) {
  test(`the page lists the files of the way "${way}" ("npm run path" writes them)`, () => {
    const measured = filesOf(paths[way]);
    const listed = listedFor(way, readPage('docs/architecture.md'));
    const missing = measured.filter((file) => !listed.includes(file));
    const superfluous = listed.filter((file) => !measured.includes(file));
    assert.deepEqual({ missing, superfluous }, { missing: [], superfluous: [] });
    assert.ok(measured.length <= MOST_FILES[way], `${measured.length} files, ${MOST_FILES[way]} at most`);
  });
}
