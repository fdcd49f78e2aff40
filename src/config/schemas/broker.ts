/** Settings of a broker: a server of Redis or Valkey that several Node-REDs share. */
import type { NodeSchema } from './node-schema.ts';

export const broker = {
  type: 'object',
  properties: {
    name: { type: 'string', default: '', description: 'Label of the node' },
    url: {
      type: 'string',
      default: 'redis://127.0.0.1:6379',
      format: 'broker-url',
      icon: 'globe',
      description:
        'Address of the server, `redis://` or, with TLS, `rediss://`; a number after the port is the database',
    },
    prefix: {
      type: 'string',
      default: 'modelet',
      format: 'key-prefix',
      icon: 'key',
      description: 'First part of all keys on the server. Node-REDs with the same prefix share what waits',
    },
    tls: {
      type: 'string',
      default: '',
      refersTo: 'tls-config',
      icon: 'shield',
      description: '`rediss://`: id of a `tls-config` node. Blank: the usual certificates',
    },
  },
  credentials: {
    username: { type: 'text', icon: 'user' },
    password: { type: 'password', icon: 'lock' },
    secret: { type: 'password', icon: 'certificate' },
  },
} as const satisfies NodeSchema;
