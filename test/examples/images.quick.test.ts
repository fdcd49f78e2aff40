/** The pictures of the example "Images by ONNX" are those that their script draws, and small. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { repositoryRoot } from '../fixtures/repository.ts';

interface Script {
  drawImages(): { name: string; file: Uint8Array }[];
}

test('the pictures equal the output of their script, byte for byte, and are small', async () => {
  const script: Script = await import(pathToFileURL(join(repositoryRoot, 'scripts', 'draw-images.mjs')).href);
  const folder = join(repositoryRoot, 'assets', 'images');
  const drawn = script.drawImages();
  assert.deepEqual(
    (await readdir(folder)).sort(),
    drawn.map(({ name }) => name),
  );
  for (const { name, file } of drawn) assert.ok(Buffer.from(file).equals(await readFile(join(folder, name))), name);
  assert.ok(drawn.reduce((sum, { file }) => sum + file.length, 0) < 60_000);
});
