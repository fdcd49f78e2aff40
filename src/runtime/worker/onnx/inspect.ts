/** Entry of a process that prints the inputs and outputs of one model as JSON and ends. Started by URL. */
import { systemClock } from '../../../core/clock.ts';
import { asError } from '../../../core/errors.ts';
import { openSession } from './session.ts';
import { findStacking } from './trial.ts';

const [path = '', requireFrom = ''] = process.argv.slice(2);

async function inspect(): Promise<object> {
  try {
    const { ports, run } = await openSession(path, requireFrom, { executionProviders: ['cpu'], threads: 1 });
    const { stacking } = await findStacking({ ports, padding: null, run }, null, () => [], systemClock);
    return { ...ports, single: stacking.tag === 'single' };
  } catch (thrown) {
    return { error: asError(thrown).message };
  }
}

process.stdout.write(JSON.stringify(await inspect()));
