/** Pictures of pages for the documentation. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inflateSync } from 'node:zlib';
import type { Page } from 'playwright-core';
import { repositoryRoot } from '../fixtures/repository.ts';

interface Size {
  readonly width: number;
  readonly height: number;
}

/** Whether the pictures in docs/ are to be replaced, with UPDATE_SCREENSHOTS=1, or only looked at. */
export const UPDATES_PICTURES: boolean = process.env['UPDATE_SCREENSHOTS'] === '1';

/** Takes a picture of the whole window, which is of this size. */
export async function takePicture(page: Page, name: string, size: Size): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'modelet-picture-'));
  try {
    const path = UPDATES_PICTURES ? join(repositoryRoot, 'docs', name) : join(folder, name);
    await page.screenshot({ path });
    assertPicture(readFileSync(path), size);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A PNG of the window's size that is not all of one colour. */
function assertPicture(png: Buffer, size: Size): void {
  assert.equal(png.toString('latin1', 1, 4), 'PNG');
  assert.deepEqual({ width: png.readUInt32BE(16), height: png.readUInt32BE(20) }, size);
  const parts: Buffer[] = [];
  for (let at = 8; at < png.length; at += png.readUInt32BE(at) + 12) {
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT')
      parts.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
  }
  assert.ok(new Set(inflateSync(Buffer.concat(parts))).size > 100, 'many colours');
}
