/**
 * The formats of text settings. The files of this folder import each other and types only: the build compiles them for
 * the editor as well, which checks each field by the format that its property has in the schema.
 */
import type { Format } from '../schemas/node-schema.ts';
import { parseClients } from './client-limits.ts';
import { parseJsonSetting, parseLabels, parseSchemaText } from './json.ts';
import { parseListen } from './listen.ts';
import { parseMediaRanges } from './media-types.ts';
import { parseResultProperty } from './message-property.ts';
import { splitModule } from './module-names.ts';
import { parseCores, parsePins } from './pins.ts';
import { parseBaseUrl, parseBrokerUrl, parseKeyPrefix, parseOrigins, parsePublicPath, parseServerUrl } from './urls.ts';
import { parseWorkers } from './workers.ts';

/** Each returns the setting that a value stands for; `read` returns another property of the node. @throws Unreadable */
export const FORMATS = {
  'base-url': parseBaseUrl,
  'broker-url': parseBrokerUrl,
  clients: parseClients,
  cores: parseCores,
  json: parseJsonSetting,
  'json-schema': parseSchemaText,
  'key-prefix': parseKeyPrefix,
  labels: parseLabels,
  listen: parseListen,
  'media-types': parseMediaRanges,
  module: splitModule,
  origins: parseOrigins,
  path: parsePublicPath,
  pins: parsePins,
  'result-property': parseResultProperty,
  'server-url': parseServerUrl,
  workers: parseWorkers,
} satisfies Record<Format, (value: never, read: never) => unknown>;
