/** The known models of stages that come from hubs: who uses which, and new workers for those that wait for a download. */
import type { NodeAPI, NodeStatus } from 'node-red';
import { Downloads, type DownloadView } from '../../runtime/service/models/downloads.ts';
import type { Service } from '../../runtime/service/service.ts';
import type { LiveNodes } from '../live-nodes.ts';
import { logWarning } from '../log.ts';
import { doesWait, downloadBadge } from '../status.ts';

interface Running {
  readonly RED: NodeAPI;
  readonly live: LiveNodes;
  readonly services: readonly Service[];
}

export class StageModels {
  readonly downloads: Downloads;
  readonly #running: Running;

  /** @param changed is called as downloads go on */
  constructor(running: Running, changed: () => void) {
    this.#running = running;
    this.downloads = Downloads.of(running.RED.settings, { changed, ended: (view) => this.#ended(view) });
  }

  /** Returns the names of the deployed stages with a model, by their ids. */
  stagesOf(model: string): ReadonlyMap<string, string> {
    const { live } = this.#running;
    const stages = live.allSettings('stage').filter(([, { source }]) => source.kind === 'task' && source.hub === model);
    return new Map(stages.map(([id, { name }]) => [id, name || id]));
  }

  badge(stage: string): NodeStatus | null {
    const source = this.#running.live.settings('stage', stage)?.source;
    const model = source?.kind === 'task' ? source.hub : undefined;
    return model === undefined ? null : downloadBadge(this.downloads.viewOf(model));
  }

  /** Gives new workers to the stages of a model that have none, or only those of earlier code. */
  #ended(view: DownloadView): void {
    const { RED, services } = this.#running;
    if (view.state === 'failed') {
      if (view.code !== 'cancelled') logWarning(RED, `the model ${view.model} is not downloaded: ${view.error}`);
      return;
    }
    RED.log.info(`[modelets] downloaded ${view.model}`);
    const stages = this.stagesOf(view.model);
    for (const service of services) {
      const waiting = service.snapshot().stages.filter((stage) => stages.has(stage.id) && doesWait(stage));
      for (const { id } of waiting) service.actOnStage(id, 'restart');
    }
  }
}
