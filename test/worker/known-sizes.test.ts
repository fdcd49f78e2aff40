/** Detectors see pictures of the size that they have in Python, where a processor limits both edges. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { PIXELS } from '../fixtures/known-detectors.ts';
import { inputs, type Read, run, taskLoader } from './rig.ts';

const folder = mkdtempSync(join(tmpdir(), 'modelet-sizes-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const load = taskLoader(folder);

const GIVEN = [
  [320, 240],
  [97, 203],
  [640, 427],
  [224, 224],
  [616, 462],
  [51, 40],
] as const;

/** Width and height of what the model sees; transformers 5.24 makes these of the pictures above. */
const CASES = [
  {
    type: 'DetrImageProcessor',
    size: { shortest_edge: 128, longest_edge: 200 },
    wanted: ['170 x 128', '96 x 200', '191 x 128', '128 x 128', '170 x 128', '163 x 128'],
  },
  {
    type: 'YolosImageProcessor',
    size: { shortest_edge: 64, longest_edge: 96 },
    wanted: ['80 x 64', '32 x 96', '80 x 64', '64 x 64', '80 x 64', '80 x 64'],
  },
];

/** The numbers of columns and rows, told by a model that answers with the mean of the colours of each pixel. */
const seen = (read: Read): number => ('value' in read ? (read.value as Float32Array).length : Number.NaN);

for (const { type, size, wanted } of CASES) {
  for (const [form, more] of [
    ['both edges', { size }],
    ['the older form', { size: size.shortest_edge, max_size: size.longest_edge }],
  ] as const) {
    test(`pictures for ${type} have the size that they have in Python, by ${form}`, async () => {
      const processor = { image_processor_type: type, do_resize: true, do_rescale: true, do_normalize: false, ...more };
      const sides = await Promise.all(
        [3, 2].map(async (axis) => {
          const model = await load(
            'image-feature-extraction',
            { normalize: false, batch: false, pooling: 'cls' },
            {
              processor,
              graphs: {
                model: {
                  inputs: [PIXELS],
                  outputs: [{ name: 'last_hidden_state', shape: ['batch', 1, 'side'] }],
                  nodes: [
                    {
                      operator: 'ReduceMean',
                      inputs: ['pixel_values'],
                      output: 'line',
                      attributes: { axes: [1, axis === 3 ? 2 : 3], keepdims: 0 },
                    },
                    { operator: 'Unsqueeze', inputs: ['line', 'axis'], output: 'last_hidden_state' },
                  ],
                  constants: [{ name: 'axis', type: 'int64', dims: [1], values: [1n] }],
                },
              },
            },
          );
          const pictures = GIVEN.map(([width, height]) => ({
            ...{ data: Buffer.alloc(width * height * 3, 90), width, height, channels: 3 },
          }));
          const found = [];
          for (const one of pictures) found.push(seen((await run(model, inputs(one)))[0] as Read));
          return found;
        }),
      );
      assert.deepEqual(
        GIVEN.map((_, at) => `${sides[0]?.[at]} x ${sides[1]?.[at]}`),
        wanted,
      );
    });
  }
}
