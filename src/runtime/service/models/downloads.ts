/**
 * The downloads of this process. One runs at a time. A request for files that one in progress brings anyway shares it; other
 * processes with the same folder wait for each other.
 */
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type FolderSettings, modelsFolder } from '../../../config/folders.ts';
import type { TaskName } from '../../../config/stage-source.ts';
import { type HubFile, type HubModel, hubText, neededFiles } from '../../../config/tasks/hub-model.ts';
import { asError } from '../../../core/errors.ts';
import { bytesHeld, fetchFile } from './fetch-file.ts';
import { FolderLock } from './folder-lock.ts';
import { type DownloadCode, DownloadError, Hub } from './hub.ts';
import { ModelCache, PARTS } from './model-cache.ts';

/** A model as a stage needs it. */
export interface WantedModel {
  readonly model: HubModel;
  readonly task: TaskName;
  readonly precision: string;
  /** For the hub; blank: none. */
  readonly token: string;
}

/** The files that a stage needs, before anything is downloaded. */
export interface ModelPlan {
  readonly commit: string;
  readonly files: readonly HubFile[];
  readonly missing: readonly HubFile[];
  /** Bytes that are missing, without those that an earlier try has left. */
  readonly bytes: number;
}

export type DownloadState =
  | { readonly state: 'waiting' }
  | { readonly state: 'running'; readonly bytes: number; readonly of: number; readonly file: string }
  | { readonly state: 'done' }
  | { readonly state: 'failed'; readonly code: DownloadCode; readonly error: string };

/** As dialogs see it. */
export type DownloadView = DownloadState & { readonly model: string };

interface DownloadListener {
  /** Is called as downloads go on. */
  readonly changed?: () => void;
  readonly ended?: (view: DownloadView) => void;
}

interface Download {
  readonly wanted: WantedModel;
  readonly text: string;
  readonly files: ReadonlySet<string>;
  readonly abort: AbortController;
  view: DownloadView;
  /** Null until it has its turn in the queue. */
  done: Promise<DownloadView> | null;
}

const LOOK_MS = 30_000;
const CANCELLED = { state: 'failed', code: 'cancelled', error: 'cancelled' } as const;

export class Downloads {
  readonly cache: ModelCache;
  readonly #hubs: string | readonly string[];
  readonly #tell: DownloadListener;
  readonly #open: Set<Download> = new Set();
  /** How the last download of each model has ended. */
  readonly #ended: Map<string, DownloadView> = new Map();
  #tail: Promise<unknown> = Promise.resolve();

  /** @param hubs as the settings have them */
  constructor(cache: ModelCache, hubs: string | readonly string[] = [], tell: DownloadListener = {}) {
    this.cache = cache;
    this.#hubs = hubs;
    this.#tell = tell;
  }

  /** Returns those of a Node-RED, or of a process without it, with these settings. */
  static of(settings: FolderSettings, tell: DownloadListener = {}): Downloads {
    const { hub, maxModelGb } = settings.modelets ?? {};
    return new Downloads(new ModelCache(modelsFolder(settings), maxModelGb), hub, tell);
  }

  /** Asks the hub for what a stage needs. @throws DownloadError */
  async look(wanted: WantedModel, signal: AbortSignal = AbortSignal.timeout(LOOK_MS)): Promise<ModelPlan> {
    return this.#withHub(wanted, (hub) => this.#plan(hub, wanted, signal));
  }

  /**
   * Begins a download, or joins another that brings all of its files.
   * @throws DownloadError if the model cannot be had
   */
  async start(wanted: WantedModel): Promise<DownloadView> {
    return (await this.#startOrJoin(wanted)).view;
  }

  /** Downloads a model to its end. @throws DownloadError if the model cannot be had */
  async run(wanted: WantedModel): Promise<DownloadView> {
    const { done, view } = await this.#startOrJoin(wanted);
    return done ?? view;
  }

  async #startOrJoin(wanted: WantedModel): Promise<Download> {
    const { files } = await this.look(wanted);
    const text = hubText(wanted.model);
    const shared = [...this.#open].find(
      (one) => one.text === text && !one.abort.signal.aborted && files.every(({ name }) => one.files.has(name)),
    );
    return shared ?? this.#begin(wanted, new Set(files.map(({ name }) => name)));
  }

  /** The download of a model that runs or waits, else how the last one has ended. */
  viewOf(model: string): DownloadView | null {
    return [...this.#open].find(({ text }) => text === model)?.view ?? this.#ended.get(model) ?? null;
  }

  /** Ends the downloads of a model. The bytes that have come stay for the next one. */
  cancel(model: string): boolean {
    const found = [...this.#open].filter(({ text }) => text === model);
    for (const download of found) {
      download.abort.abort();
      // Its turn may come much later.
      if (download.view.state === 'waiting') this.#end(download, { model, ...CANCELLED });
    }
    return found.length > 0;
  }

  #begin(wanted: WantedModel, files: ReadonlySet<string>): Download {
    const text = hubText(wanted.model);
    const view = { model: text, state: 'waiting' } as const;
    const download: Download = { wanted, text, files, view, abort: new AbortController(), done: null };
    this.#open.add(download);
    download.done = this.#tail.then(async () => {
      const end = await this.#runOne(download);
      if (this.#open.has(download)) this.#end(download, end);
      return end;
    });
    this.#tail = download.done;
    this.#tell.changed?.();
    return download;
  }

  #end(download: Download, end: DownloadView): void {
    this.#open.delete(download);
    this.#ended.set(download.text, end);
    this.#tell.changed?.();
    this.#tell.ended?.(end);
  }

  async #runOne(download: Download): Promise<DownloadView> {
    const { wanted, text: model, abort } = download;
    try {
      abort.signal.throwIfAborted();
      await this.#withHub(wanted, (hub) => this.#fetchAll(hub, download));
      return { model, state: 'done' };
    } catch (thrown) {
      if (abort.signal.aborted) return { model, ...CANCELLED };
      const code = thrown instanceof DownloadError ? thrown.code : 'failed';
      return { model, state: 'failed', code, error: asError(thrown).message };
    }
  }

  async #fetchAll(hub: Hub, download: Download): Promise<void> {
    const { wanted, abort, text } = download;
    const { model } = wanted;
    const folder = this.cache.pathOf(model);
    const lock = await FolderLock.take(folder, abort.signal);
    try {
      // Another process may have downloaded it meanwhile.
      const { commit, missing, bytes } = await this.#plan(hub, wanted, abort.signal);
      await this.cache.checkRoom(bytes);
      await this.cache.writeManifest({ ...model, commit });
      const of = missing.reduce((sum, { size }) => sum + size, 0);
      let before = 0;
      for (const file of missing) {
        const grown = (added: number): void => {
          download.view = { model: text, state: 'running', bytes: before + added, of, file: file.name };
          this.#tell.changed?.();
        };
        const open = (from: number, signal: AbortSignal) => hub.open(model, commit, file, from, signal);
        await fetchFile({ file, part: this.cache.partOf(model, file), open, signal: abort.signal, grown });
        before += file.size;
      }
      await this.#moveIn(model, missing);
    } finally {
      await lock.release();
    }
  }

  /** Gives the files their names when all are there, so that no worker begins with a part of them. */
  async #moveIn(model: HubModel, fetched: readonly HubFile[]): Promise<void> {
    const folder = this.cache.pathOf(model);
    for (const file of fetched) {
      const path = join(folder, file.name);
      await mkdir(dirname(path), { recursive: true });
      await rename(this.cache.partOf(model, file), path);
    }
    await rm(join(folder, PARTS), { recursive: true, force: true });
  }

  async #plan(hub: Hub, { model, task, precision }: WantedModel, signal: AbortSignal): Promise<ModelPlan> {
    const held = await this.cache.manifestOf(model);
    const { commit, files: all } = await hub.list(held ? { ...model, revision: held.commit } : model, signal);
    let files: readonly HubFile[];
    try {
      files = neededFiles(all, task, precision);
    } catch (cause) {
      throw new DownloadError('incomplete', `${hubText(model)}: ${asError(cause).message}`, { cause });
    }
    const missing = await this.cache.missing(model, files);
    const parts = await Promise.all(missing.map((file) => bytesHeld(this.cache.partOf(model, file))));
    const bytes = missing.reduce((sum, { size }, at) => sum + (size - Math.max(0, parts[at] as number)), 0);
    return { commit, files, missing, bytes };
  }

  async #withHub<Result>({ token }: WantedModel, use: (hub: Hub) => Promise<Result>): Promise<Result> {
    const hub = new Hub(this.#hubs, token);
    try {
      return await use(hub);
    } finally {
      await hub.close();
    }
  }
}
