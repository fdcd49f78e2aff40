/** What every source's loader does: turn its description into a modelet that can be called. */
import type { ModeletDefinition } from '../../core/model.ts';
import type { LoadedModelet, ModeletContext } from '../modelet/modelet.ts';

export type Loadable = Omit<ModeletDefinition, 'workers'>;

/**
 * Loads the code, without running `setup`.
 * @throws whatever keeps it from loading: a missing file, a syntax error, an export that is no modelet. The stage
 * shows that error on its node.
 */
export type LoadSource<S> = (source: S, definition: Loadable, context: ModeletContext) => Promise<LoadedModelet>;
