/** The known models of a worker host: those that lie where the runtime's machine has them, and those that it downloads. */
import { statSync } from 'node:fs';
import { type FolderSettings, folderOfHub } from '../../config/folders.ts';
import type { StageSource } from '../../config/stage-source.ts';
import { type HubModel, parseHubName } from '../../config/tasks/hub-model.ts';
import { isWholeModel } from '../../config/tasks/model-folder.ts';
import type { Clock } from '../../core/clock.ts';
import { asError, ModeletError } from '../../core/errors.ts';
import type { Log } from '../../observe/log/log.ts';
import { Downloads } from '../../runtime/service/models/downloads.ts';
import { HUB_TOKEN } from '../../runtime/service/models/hub.ts';

type ModelSource = Extract<StageSource, { kind: 'task' }>;

/** A download that has not brought its model. */
type Fetch = { readonly tag: 'running' } | { readonly tag: 'failed'; readonly reason: string; readonly at: number };

/** Time after which a download that has failed is tried again, in ms. */
const RETRY_MS = 60_000;

export class HostModels {
  readonly #settings: FolderSettings;
  /** null: the host downloads nothing. */
  readonly #downloads: Downloads | null;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #fetches: Map<string, Fetch> = new Map();

  /** @param settings the folder in which the models lie, and the hubs */
  constructor(settings: FolderSettings, install: boolean, log: Log, clock: Clock) {
    this.#settings = settings;
    this.#downloads = install ? Downloads.of(settings) : null;
    this.#log = log;
    this.#clock = clock;
  }

  /**
   * Returns the source with the folder of its model on this host, or null while the model is downloaded.
   * @throws ModeletError `config_invalid` that says why the host does not have the model
   */
  find(source: ModelSource): ModelSource | null {
    const { hub, folder, task, precision } = source;
    if (hub === undefined) {
      if (statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return source;
      throw refusal(
        `the host has no folder ${folder} with the model: copy it from the machine of the runtime, or share it`,
      );
    }
    const own = folderOfHub(this.#settings, parseHubName(hub) as HubModel);
    const found = [folder, own].find((place) => isWholeModel(place, task, precision));
    if (found !== undefined) return { ...source, folder: found };
    if (this.#downloads === null) {
      throw refusal(
        `the host has no folder ${folder} with the model ${hub}: start it with --install, copy the folder from the machine of the runtime, or share it`,
      );
    }
    this.#fetch(this.#downloads, source, hub);
    return null;
  }

  /** Begins the download, or again if the last one failed some time ago. @throws ModeletError if it has failed */
  #fetch(downloads: Downloads, { task, precision }: ModelSource, hub: string): void {
    const key = JSON.stringify([hub, task, precision]);
    const present = this.#fetches.get(key);
    if (present?.tag === 'running') return;
    if (present && this.#clock.now() - present.at < RETRY_MS)
      throw refusal(`the model ${hub} is not downloaded: ${present.reason}`);
    this.#fetches.set(key, { tag: 'running' });
    this.#log.write({ level: 'info', message: `downloads the model ${hub}` });
    const wanted = { model: parseHubName(hub) as HubModel, task, precision, token: process.env[HUB_TOKEN] ?? '' };
    downloads.run(wanted).then(
      (ended) => (ended.state === 'failed' ? this.#fail(key, ended.error) : this.#fetches.delete(key)),
      (thrown: unknown) => this.#fail(key, asError(thrown).message),
    );
  }

  #fail(key: string, reason: string): void {
    this.#fetches.set(key, { tag: 'failed', reason, at: this.#clock.now() });
  }
}

export function refusal(message: string): ModeletError {
  return new ModeletError('config_invalid', message);
}
