/** Picks the loader for a modelet's source. A new source that runs in this process adds a case here. */
import type { Loadable, LoadedModelet, ModeletContext } from '../modelet/modelet.ts';
import { loadFile, loadModule } from './file.ts';
import { loadInline } from './inline.ts';

/** @throws any error that keeps the code from loading, see `LoadSource`. */
export async function loadSource(definition: Loadable, context: ModeletContext): Promise<LoadedModelet> {
  const { source } = definition;
  switch (source.kind) {
    case 'inline':
      return loadInline(source, definition, context);
    case 'file':
      return loadFile(source, definition, context);
    case 'module':
      return loadModule(source, definition, context);
    case 'onnx':
      // Imported lazily, like every module that few workers need: loading it takes longer than a worker's start.
      return (await import('./onnx.ts')).loadOnnx(source, definition, context);
    case 'task':
      return (await import('./task.ts')).loadTask(source, definition, context);
    case 'python':
    case 'python-code':
      throw new Error('Python runs in separate workers');
  }
}
