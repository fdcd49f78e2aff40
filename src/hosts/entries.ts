/**
 * The entries of the registry: the definition of a remote stage, with the file of its modelet, and the report of a
 * worker host.
 *
 * A definition is code that a host runs. It is signed with a secret that only the runtime and its hosts know, so that
 * write access to the broker alone does not make hosts run code.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import type { PlannedStage, StageDefinition } from '../config/stage-definition.ts';
import { ModeletError } from '../core/errors.ts';
import type { ModeletDescription, WorkerStatus } from '../core/model.ts';
import type { OwnValues } from '../core/readings.ts';
import { BUILD_ID } from '../process/build-id.ts';

/** Largest file that travels with its definition, in bytes. A larger one must be on each host, at the same path. */
const LARGEST_FILE = 8 * 1024 * 1024;

/** A file that the modelet is loaded from. */
export interface StageFile {
  readonly path: string;
  readonly sha256: string;
  /** In Base64; null if the file is too large. */
  readonly content: string | null;
}

export interface PublishedStage {
  /** Build of the code of this package that the runtime runs. */
  readonly build: string;
  readonly key: string;
  readonly stage: PlannedStage;
  readonly file: StageFile | null;
}

/** Counters and histograms of a stage on one host. */
export interface OwnTotals {
  /** Time of the server since which the host has counted. */
  readonly since: number;
  readonly counts: OwnValues;
  /** Updates that were dropped because there are too many metrics. */
  readonly dropped: number;
  /** Keys that have lost their states with a worker. */
  readonly keysLost: number;
}

/** How a host serves one stage. */
export interface ServedStage {
  readonly workers: readonly WorkerStatus[];
  readonly pinWarnings: readonly string[];
  readonly description: ModeletDescription | null;
  /** Why the host does not serve the stage; null if it does, or will. */
  readonly error: string | null;
  /** The counts of its modelet's own metrics; null if the host does not serve the stage. */
  readonly own: OwnTotals | null;
}

export interface HostReport {
  /** Name of the machine, for people. */
  readonly host: string;
  readonly pid: number;
  /** Whether it takes no more batches. */
  readonly isLeaving: boolean;
  /** By the key of the stage. */
  readonly stages: Readonly<Record<string, ServedStage>>;
}

/** Identifies a stage with its code: a host may serve the old code and the new while a deploy replaces one by the other. */
export function keyOf({ id, revision }: Pick<StageDefinition, 'id' | 'revision'>): string {
  return `${encodeURIComponent(id)}-${revision}`;
}

/** Rejects if the file of the modelet cannot be read. */
export async function publish(definition: StageDefinition, secret: string): Promise<string> {
  const { ref: _, revision, remote: __, ...stage } = definition;
  const key = keyOf({ id: stage.id, revision });
  const entry: PublishedStage = { build: BUILD_ID, key, stage: { ...stage, remote: null }, file: await fileOf(stage) };
  const body = JSON.stringify(entry);
  return JSON.stringify({ body, mac: secret === '' ? '' : macOf(body, secret) });
}

/**
 * Reads the entry of a stage.
 * @param secret null: what is not signed is read, too
 * @throws ModeletError `config_invalid` if the signature is not by this secret.
 */
export function readPublished(text: string, secret: string | null): PublishedStage {
  const { body, mac } = JSON.parse(text) as { body: string; mac: string };
  if (secret !== null && !isSignedBy(body, mac, secret)) {
    throw new ModeletError('config_invalid', 'it is not signed with the secret of the worker host');
  }
  return JSON.parse(body) as PublishedStage;
}

/** Hashes by path, with the size and time of change that each file had: to read a large model takes long. */
const hashes: Map<string, { readonly stamp: string; readonly sha256: string }> = new Map();
const MOST_HASHES = 1000;

/** Reads a file only if it has changed since its last hash. Tools set its time of modification, but not that of change. */
export async function sha256Of(path: string): Promise<string> {
  const { size, ctimeMs } = await stat(path);
  const stamp = `${size} ${ctimeMs}`;
  const known = hashes.get(path);
  if (known?.stamp === stamp) return known.sha256;
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  const sha256 = hash.digest('hex');
  if (hashes.size >= MOST_HASHES) hashes.clear();
  hashes.set(path, { stamp, sha256 });
  return sha256;
}

function isSignedBy(body: string, mac: string, secret: string): boolean {
  const wanted = Buffer.from(macOf(body, secret));
  const found = Buffer.from(mac);
  return found.byteLength === wanted.byteLength && timingSafeEqual(found, wanted);
}

function macOf(body: string, secret: string): string {
  return createHmac('sha256', secret).update(body).digest('hex');
}

async function fileOf({ modelet: { source } }: Pick<StageDefinition, 'modelet'>): Promise<StageFile | null> {
  if (!('path' in source)) return null;
  const { path } = source;
  const fits = (await stat(path)).size <= LARGEST_FILE;
  return { path, sha256: await sha256Of(path), content: fits ? (await readFile(path)).toString('base64') : null };
}
