/** Loads a modelet from an npm module that the user has installed in the folder where Node-RED puts modules. */
import type { StageSource } from '../../core/model.ts';
import { modeletOf } from './file.ts';
import { importFrom } from './import-module.ts';
import type { LoadSource } from './source.ts';

export const loadModule: LoadSource<Extract<StageSource, { kind: 'module' }>> = async (source, definition, context) =>
  modeletOf(await importFrom(definition.requireFrom, source.module), source.module, definition, context);
