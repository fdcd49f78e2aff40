/** Entry of a process that reads the inputs and outputs of one model, says them as JSON, and ends. Started by URL. */
import { asError } from '../../core/errors.ts';
import { stackingOf } from './ports.ts';
import { openSession } from './session.ts';

const [path = '', requireFrom = ''] = process.argv.slice(2);

async function inspect(): Promise<object> {
  try {
    const { ports } = await openSession(path, requireFrom, { executionProviders: ['cpu'], threads: 1 });
    return { ...ports, single: stackingOf(ports, null).tag === 'single' };
  } catch (thrown) {
    return { error: asError(thrown).message };
  }
}

process.stdout.write(JSON.stringify(await inspect()));
