/** Writes files of which a crash must leave the old content or the new one. */
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Replaces a file, which only its user can read, and makes its folder. A crash or a power cut leaves the old file or the
 * new one, never half of one. @throws Error if it cannot be written
 */
export function replaceFile(file: string, content: string | Uint8Array): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const written = `${file}.new`;
  const descriptor = openSync(written, 'w', 0o600);
  try {
    writeFileSync(descriptor, content);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  renameSync(written, file);
}
