/** Describes the inputs and outputs of stages, as far as their settings and modelets declare them. */
import type { StageConfig } from '../../config/compile-stage.ts';
import { ModeletError } from '../../core/errors.ts';
import type { Reached } from '../../flow/http-ways.ts';
import type { ApiInput, ApiStage } from '../../openapi/endpoint.ts';
import type { Service } from '../../server/service.ts';
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

/** Describes a stage's output. @param direct whether no node behind the stage can change its result */
export function outputOf(stages: Stages, id: string, direct: boolean): ApiStage {
  return stageOf(stages, id, direct, 'output');
}

function stageOf(stages: Stages, id: string, direct: boolean, side: 'input' | 'output'): ApiStage {
  const config = configOf(stages, id);
  // The workers' schema counts once they have reported it; until then, the configured one.
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
