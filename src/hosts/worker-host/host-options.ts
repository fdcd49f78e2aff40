/** Reads the options of `modelet worker`. */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { compileBroker } from '../../config/compile.ts';
import { parsePins } from '../../config/formats/pins.ts';
import type { RemotePlace } from '../../core/model.ts';
import type { HostRules } from './installed-stage.ts';
import type { HostSpec } from './worker-host.ts';

const MOST_WORKERS = 256;

/** @throws Error that says what is wrong with the options */
export function readHost(args: readonly string[]): HostSpec {
  const { values } = parseArgs({
    args: [...args],
    options: {
      broker: { type: 'string', default: '' },
      runtime: { type: 'string', default: '' },
      prefix: { type: 'string', default: 'modelet' },
      stage: { type: 'string', multiple: true, default: [] },
      workers: { type: 'string' },
      cpus: { type: 'string' },
      'secret-file': { type: 'string' },
      code: { type: 'string' },
      install: { type: 'boolean', default: false },
    },
  });
  const { workers, cpus = null, install } = values;
  if (cpus !== null) parsePins(cpus);
  return {
    place: placeOf(values),
    ...trust(values['secret-file'], values.code, install),
    install,
    ...{ stages: values.stage, workers: workers === undefined ? null : countOf(workers), cpus },
  };
}

function placeOf({ broker, prefix, runtime }: Readonly<Record<'broker' | 'prefix' | 'runtime', string>>): RemotePlace {
  if (broker === '' || runtime === '') throw new Error('worker needs --broker and --runtime');
  const { url, prefix: checked } = compileBroker({ url: broker, prefix });
  const { MODELET_BROKER_USERNAME: username = '', MODELET_BROKER_PASSWORD: password = '' } = process.env;
  return { url, prefix: checked, username, password, tls: null, runtime, secret: '' };
}

function trust(
  secretFile: string | undefined,
  code: string | undefined,
  install: boolean,
): Pick<HostRules, 'secret' | 'onlyLocalCode'> {
  if (code !== undefined && code !== 'local') throw new Error(`--code can only be local, not ${code}`);
  if (secretFile === undefined && code === undefined) {
    throw new Error('worker runs only code that it can trust: give --secret-file, or --code local');
  }
  if (install && secretFile === undefined)
    throw new Error('--install downloads the models that stages name: give --secret-file, so that only signed ones do');
  const secret = secretFile === undefined ? null : readFileSync(secretFile, 'utf8').trim();
  if (secret === '') throw new Error(`the secret file ${secretFile} is empty`);
  return { secret, onlyLocalCode: code === 'local' };
}

function countOf(text: string): number {
  const count = Number(text);
  if (Number.isInteger(count) && count >= 1 && count <= MOST_WORKERS) return count;
  throw new Error(`--workers is a whole number from 1 to ${MOST_WORKERS}, not ${text}`);
}
