/** Pictures with results drawn over them: sizes of real files, pixels as PNG files, and labels that hold anything. */
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { drawResults } from '../../src/core/pictures/drawing.ts';
import { encodePng, shrink } from '../../src/core/pictures/png.ts';
import { drawPicture } from '../../src/node-red/view/drawn-picture.ts';
import { pictureHead } from '../../src/node-red/view/picture-size.ts';
import { annotate } from '../../src/runtime/worker/modelet/annotate.ts';
import { repositoryRoot } from '../fixtures/repository.ts';

interface Sharp {
  withMetadata(options: object): Sharp;
  toFormat(format: string, options?: object): Sharp;
  raw(): Sharp;
  toBuffer(): Promise<Buffer>;
}
const sharp = createRequire(join(repositoryRoot, 'package.json'))('sharp') as (data: Uint8Array, raw?: object) => Sharp;
const [WIDTH, HEIGHT] = [37, 23];
const pixels = Uint8Array.from({ length: WIDTH * HEIGHT * 3 }, (_, at) => (at * 7) % 256);
const opened = (): Sharp => sharp(pixels, { raw: { width: WIDTH, height: HEIGHT, channels: 3 } });
const on = { width: 200, height: 100, letters: 10 };
const limits = { maxMb: 1, shownWidth: 240 };

describe('the head of a picture file', () => {
  const files = [
    ['image/jpeg', 'jpeg', {}],
    ['image/png', 'png', {}],
    ['image/gif', 'gif', {}],
    ['image/webp', 'webp', {}],
    ['image/webp', 'webp', { lossless: true }],
    ['image/webp', 'webp', { alphaQuality: 50 }],
  ] as const;
  for (const [type, format, options] of files)
    test(`tells the size of a ${format} ${JSON.stringify(options)}`, async () => {
      const file = await opened().toFormat(format, options).toBuffer();
      assert.deepEqual(pictureHead(file), { type, width: WIDTH, height: HEIGHT });
      // However short it is cut, it has a size or none, and throws nothing.
      for (let length = 0; length < 400; length += 7) pictureHead(file.subarray(0, length));
      assert.equal(pictureHead(file.subarray(0, 9)), null);
    });

  test('has the size as a person sees the picture', async () => {
    for (const [orientation, turned] of [
      [3, false],
      [6, true],
    ] as const) {
      const file = await opened().withMetadata({ orientation }).toFormat('jpeg').toBuffer();
      const size = turned ? { width: HEIGHT, height: WIDTH } : { width: WIDTH, height: HEIGHT };
      assert.deepEqual(pictureHead(file), { type: 'image/jpeg', ...size });
    }
  });

  test('is missing in anything else', () => {
    for (const bytes of [Buffer.alloc(0), Buffer.from('<svg onload="alert(1)"/>'), Buffer.alloc(64, 0xff)])
      assert.equal(pictureHead(bytes), null);
  });
});

describe('pixels', () => {
  test('are a PNG file with the same pixels', async () => {
    const file = await encodePng({ data: pixels, width: WIDTH, height: HEIGHT, channels: 3 });
    assert.deepEqual([...(await sharp(file).raw().toBuffer())], [...pixels]);
  });

  test('of a large picture become fewer', () => {
    const small = shrink({ data: new Uint8Array(400 * 200).fill(9), width: 400, height: 200, channels: 1 }, 100);
    assert.deepEqual([small.width, small.height, small.data.length, small.data[4999]], [100, 50, 5000, 9]);
  });
});

describe('a drawing', () => {
  test('has boxes with their labels, within the picture', async () => {
    const svg = await drawResults(
      [
        { label: 'cat', score: 0.914, box: { xmin: -5, ymin: 40, xmax: 50, ymax: 300 } },
        { label: 'lost', score: 1, box: { xmin: 'a', ymin: 0, xmax: 1, ymax: 1 } },
      ],
      on,
    );
    assert.match(svg, /<rect x="0" y="40" width="50" height="60" fill="none"/);
    assert.match(svg, /<text [^>]*>cat 91 %<\/text>/);
    assert.doesNotMatch(svg, /lost|NaN/);
  });

  test('has a bar for each of the first labels', async () => {
    const results = Array.from({ length: 9 }, (_, at) => ({ label: `l${at}`, score: 1 / (at + 1) }));
    const svg = await drawResults(results, on);
    assert.equal(svg.match(/<text /g)?.length, 5);
    assert.match(svg, /<rect x="0" y="15" width="100" /);
  });

  test('has masks in the colours of their labels, and none that a browser could choke on', async () => {
    const png = await encodePng({ data: new Uint8Array(6).fill(255), width: 3, height: 2, channels: 1 });
    const mask = `data:image/png;base64,${png.toString('base64')}`;
    const svg = await drawResults(
      [
        { label: 'cat', score: 0.9, mask },
        { label: null, score: null, mask },
      ],
      on,
    );
    assert.match(svg, /^<mask id="mask0"><image width="200" height="100" [^>]*href="data:image\/png;base64,/);
    const [fill] = /fill="#\w+" opacity="0.5" mask="url\(#mask0\)"/.exec(svg) ?? [];
    assert.ok(svg.includes(`${fill?.slice(0, 14)} opacity="0.9"/><text`), svg);
    assert.match(svg, /mask="url\(#mask1\)"\/>.*>cat 90 %<\/text>$/);
    const huge = Buffer.from(png);
    huge.writeUInt32BE(50_000, 16);
    const refused = [
      `data:image/png;base64,${huge.toString('base64')}`,
      `${mask}"><script/>`,
      'https://a.b/c.png',
      mask.slice(0, 40),
      7,
    ];
    for (const one of refused) assert.equal(await drawResults([{ mask: one }], on), '');
  });

  test('shows depth, and nothing of other results', async () => {
    const depth = Float32Array.from({ length: 6 }, (_, at) => at);
    assert.match(await drawResults({ width: 3, height: 2, depth }, on), /^<image .*href="data:image\/png;base64,/);
    for (const other of [
      null,
      'text',
      7,
      [],
      [1, 2],
      {},
      { width: 9, height: 9, depth },
      { width: -3, height: -2, depth },
      Buffer.from('x'),
    ])
      assert.equal(await drawResults(other, on), '');
  });

  test('takes a label as text, whatever it holds', async () => {
    const label = '</text><script>"x"</script>&\u0000\ud800';
    const svg = await drawResults([{ label, score: 1, box: { xmin: 0, ymin: 0, xmax: 9, ymax: 9 } }], on);
    assert.match(svg, />&#60;\/text&#62;&#60;script&#62;&#34;x&#34;&#60;\/script&#62;&#38; {3}100 %<\/text>$/);
  });

  test('names why there is no picture', async () => {
    const jpeg = await opened().toFormat('jpeg').toBuffer();
    const refused = [
      [undefined, 'no picture'],
      [{ label: 'cat' }, 'not a picture'],
      ['data:image/png;base64,AAAA', 'not a JPEG, PNG, WebP or GIF file'],
      [Buffer.concat([jpeg, Buffer.alloc(1024 * 1024)]), '1.0 MB, limit 1'],
      [{ data: pixels, width: 5, height: 5 }, 'not a picture'],
      [{ data: pixels.subarray(0, 3), width: 0.5, height: 2 }, 'not a picture'],
    ] as const;
    for (const [value, message] of refused) await assert.rejects(drawPicture(value, null, limits), { message });
    const { svg, width } = await drawPicture({ data: pixels, width: WIDTH, height: HEIGHT }, null, limits);
    assert.equal(width, WIDTH);
    assert.match(svg, /^<svg [^>]*viewBox="0 0 37 23"><image [^>]*href="data:image\/png;base64,[\w+/=]+"\/><\/svg>$/);
  });
});

test('annotate draws a box into a file of the same size, and leaves a picture without results as it is', async () => {
  const black = { data: new Uint8Array(60 * 40 * 3), width: 60, height: 40 };
  const box = { xmin: 10, ymin: 10, xmax: 50, ymax: 30 };
  const file = await annotate(black, [{ label: 'dot', score: 0.5, box }], { format: 'png' });
  assert.deepEqual(pictureHead(file), { type: 'image/png', width: 60, height: 40 });
  const drawn = await sharp(file).raw().toBuffer();
  const at = (x: number, y: number): number[] => [...drawn.subarray((y * 60 + x) * 3, (y * 60 + x) * 3 + 3)];
  assert.deepEqual(at(55, 35), [0, 0, 0]);
  assert.ok(
    at(50, 26).some((part) => part > 40),
    `the side of the box: ${at(50, 26)}`,
  );
  const grey = await encodePng({ data: Uint8Array.of(255, 0), width: 2, height: 1, channels: 1 });
  const mask = `data:image/png;base64,${grey.toString('base64')}`;
  const masked = await annotate(black, [{ label: null, score: null, mask }], { format: 'png' });
  const [left, right] = [10, 50].map((x) => (20 * 60 + x) * 3);
  const colours = await sharp(masked).raw().toBuffer();
  assert.ok(Math.max(...colours.subarray(left, Number(left) + 3)) > 40, 'the thing is on the left');
  assert.deepEqual([...colours.subarray(right, Number(right) + 3)], [0, 0, 0]);
  const bare = await annotate(black, 'no results');
  assert.deepEqual(pictureHead(bare), { type: 'image/jpeg', width: 60, height: 40 });
  await assert.rejects(annotate('no picture!', []), { code: 'invalid_input' });
  await assert.rejects(annotate(black, [], { maxMegapixels: 0.001 }), { code: 'payload_too_large' });
});
