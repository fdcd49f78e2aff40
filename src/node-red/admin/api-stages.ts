/** What stages take and give, as far as their settings and their modelets say it. */
import type { StageConfig } from '../../config/compile-stage.ts';
import { ModeletError } from '../../core/errors.ts';
import type { ApiInput, ApiStage } from '../../openapi/endpoint.ts';
import type { Service } from '../../server/service.ts';
import type { Reached } from '../deploy/http-ways.ts';
import type { LiveNodes } from '../live-nodes.ts';

export interface Stages {
  readonly live: LiveNodes;
  readonly names: ReadonlyMap<string, string>;
  readonly services: readonly Service[];
}

export function inputOf(stages: Stages, { id, direct }: Reached): ApiInput {
  const config = configOf(stages, id);
  const examples = descriptionOf(stages, id, config)?.examples ?? [];
  return {
    ...stageOf(stages, id, direct, 'input'),
    mediaTypes: config?.mediaTypes ?? [],
    examples: examples.map((text) => JSON.parse(text) as unknown),
  };
}

/** What a stage gives, to where something may lie between that changes it, or nothing. */
export function outputOf(stages: Stages, id: string, direct: boolean): ApiStage {
  return stageOf(stages, id, direct, 'output');
}

function stageOf(stages: Stages, id: string, direct: boolean, side: 'input' | 'output'): ApiStage {
  const config = configOf(stages, id);
  // What the workers hold to, once there are some; before that, what they are to hold to.
  const told = descriptionOf(stages, id, config)?.[`${side}Schema`] ?? null;
  return {
    name: stages.names.get(id) ?? id,
    property: config?.[side] ?? 'payload',
    schema: told === null ? (config?.[`${side}Schema`] ?? null) : JSON.parse(told),
    direct,
  };
}

function configOf({ live }: Stages, id: string): StageConfig | null {
  const stage = live.get(id);
  return stage?.kind === 'stage' && !(stage.config instanceof ModeletError) ? stage.config : null;
}

function descriptionOf(
  { services }: Stages,
  id: string,
  config: StageConfig | null,
): ReturnType<Service['description']> {
  return services.find((service) => service.id === config?.runtime)?.description(id) ?? null;
}
