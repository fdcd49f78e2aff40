/** Settings of a picture preview, which shows pictures and results in the editor. */
import type { NodeSchema } from './node-schema.ts';

export const view = {
  type: 'object',
  properties: {
    name: { type: 'string', default: '', description: 'Label of the node' },
    picture: {
      type: 'string',
      default: 'payload',
      needed: true,
      format: 'property',
      icon: 'picture-o',
      description: 'Message property with the picture',
    },
    results: {
      type: 'string',
      default: 'payload',
      needed: true,
      format: 'property',
      icon: 'object-group',
      description: 'Message property with the results to draw over it. Anything that cannot be drawn is left out',
    },
    rate: {
      type: 'number',
      default: 5,
      minimum: 0.1,
      maximum: 25,
      icon: 'clock-o',
      unit: 'perSecond',
      description: 'Most pictures shown per second. Of more, the newest is shown',
    },
    width: {
      type: 'integer',
      default: 240,
      minimum: 0,
      maximum: 1000,
      icon: 'arrows-h',
      unit: 'px',
      description: 'Width of the picture below the node, in px. 0: only in the sidebar',
    },
    maxMb: {
      type: 'number',
      default: 4,
      minimum: 0.01,
      maximum: 64,
      icon: 'expand',
      unit: 'MB',
      description: 'Largest picture file that is shown, in MB',
    },
  },
} as const satisfies NodeSchema;
