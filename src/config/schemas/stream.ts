/** Settings of a node that writes a result in parts to its HTTP client. */
import { type NodeSchema, TIME } from './node-schema.ts';

export const stream = {
  type: 'object',
  properties: {
    name: { type: 'string', default: '', description: 'Label of the node' },
    format: {
      type: 'string',
      default: 'sse',
      enum: ['sse', 'openai', 'jsonl', 'raw', 'websocket'],
      icon: 'ellipsis-h',
      description:
        '`sse`: server-sent events. `openai`: as chat completions of OpenAI. `jsonl`: a line of JSON for each part. `raw`: the parts alone. `websocket`: over a WebSocket, a message for each line of `jsonl`',
    },
    event: {
      type: 'string',
      default: '',
      onlyIf: { format: ['sse'] },
      icon: 'bookmark-o',
      description: 'With `format` `sse`: name of the event that each part is. Empty: clients call it `message`',
    },
    heartbeatMs: {
      ...TIME,
      default: 15_000,
      onlyIf: { format: ['sse', 'openai', 'websocket'] },
      icon: 'heartbeat',
      description:
        'With `format` `sse`, `openai` or `websocket`: longest silence before a comment, or a ping, is sent, so that nothing closes the connection. 0: none',
    },
  },
} as const satisfies NodeSchema;
