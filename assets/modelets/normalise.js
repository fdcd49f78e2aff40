/** Scales the pixels of an 8x8 image of a digit to what the network was trained on. */
const PIXELS = 64;
const PIXEL_MAX = 16;

/**
 * @param {{ image: number[] }} input
 * @returns {Float32Array} the 64 pixels, 0..1
 */
export default function normalise({ image }) {
  return Float32Array.from(image, (pixel) => pixel / PIXEL_MAX);
}

/** The input's schema. Other inputs get status 422 with the place of the mistake. OpenAPI shows the schema, too. */
normalise.inputSchema = {
  type: 'object',
  required: ['image'],
  properties: {
    image: {
      description: 'The image row by row, from 0 for paper to 16 for ink.',
      type: 'array',
      minItems: PIXELS,
      maxItems: PIXELS,
      items: { type: 'number', minimum: 0, maximum: PIXEL_MAX },
    },
  },
};

/** Tried before a worker is ready, and when the health check asks for it. */
normalise.examples = [{ image: [...'0777770000000700000070000007000000700000070000000700000000000000'].map(Number) }];
