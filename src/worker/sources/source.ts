/** Defines the interface of a source's loader, which turns the source's description into a callable modelet. */
import type { ModeletDefinition } from '../../config/schemas/stage-definition.ts';
import type { LoadedModelet, ModeletContext } from '../modelet/modelet.ts';

export type Loadable = Omit<ModeletDefinition, 'workers'>;

/**
 * Loads the code, without running `setup`.
 * @throws any error that keeps it from loading: a missing file, a syntax error, an export that is no modelet. The
 * stage's node shows that error.
 */
export type LoadSource<S> = (source: S, definition: Loadable, context: ModeletContext) => Promise<LoadedModelet>;
