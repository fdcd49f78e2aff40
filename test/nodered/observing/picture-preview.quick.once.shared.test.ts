/**
 * The node that shows pictures: messages pass it unchanged, editors get the newest picture, and nothing is drawn without
 * a user who sees it.
 * Shows: node modelet-view.
 */
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { describe, test } from 'node:test';
import { node, sink, TAB } from '../../fixtures/flow.ts';
import { useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

interface Shown {
  readonly version: number;
  readonly svg?: string;
  readonly problem?: string;
}

const { encode } = createRequire(import.meta.url)('jpeg-js') as {
  encode(picture: object, quality: number): { readonly data: Buffer };
};
const jpeg = (width: number): Buffer => encode({ data: Buffer.alloc(width * 8 * 4, 255), width, height: 8 }, 90).data;
const BOXES = [{ label: '<b>cat</b>', score: 0.9, box: { xmin: 1, ymin: 1, xmax: 5, ymax: 5 } }];

describe('a picture preview', () => {
  const red = useNodeRed({
    prepare: (started) =>
      started.deploy([
        TAB,
        node('view', 'modelet-view', ['next', []], { results: 'objects.found', rate: '2' }),
        node('drawn', 'modelet-view', [[], 'drawing'], { picture: 'frame', maxMb: '0.01' }),
        sink('next'),
        sink('drawing'),
      ]),
  });

  const ask = async (seen: Readonly<Record<string, unknown>>): Promise<Readonly<Record<string, Shown>>> =>
    red.getJson(`/admin/modelets/pictures?seen=${encodeURIComponent(JSON.stringify(seen))}`);

  test('passes messages on and gives an editor the newest picture with its boxes, as text', async () => {
    const passed = red.inputs('next');
    const waiting = ask({ view: null, drawn: null, gone: null });
    for (const width of [8, 9, 10]) red.send('view', { payload: jpeg(width), objects: { found: BOXES }, at: width });
    const { view, ...others } = await waiting;
    assert.deepEqual(others, {});
    assert.match(view?.svg ?? '', /viewBox="0 0 \d+ 8"><image .*&#60;b&#62;cat&#60;\/b&#62; 90 %<\/text><\/svg>$/);
    // The pictures between are skipped, and the last one is not.
    await until('the newest', async () => / viewBox="0 0 10 8"/.test((await ask({ view: null }))['view']?.svg ?? ''));
    await until('all messages', () => passed.length === 3);
    assert.deepEqual(passed[2]?.['objects'], { found: BOXES });
    assert.ok(Buffer.isBuffer(passed[2]?.payload));
  });

  test('sends a drawing as a data URL, and says on its badge why it has none', async () => {
    const drawings = red.inputs('drawing');
    red.send('drawn', { frame: { data: Buffer.alloc(12, 200), width: 2, height: 2 }, payload: BOXES, topic: 'door' });
    const [drawing] = await until('a drawing', () => drawings.length > 0 && drawings);
    assert.match(String(drawing?.payload), /^data:image\/svg\+xml,%3Csvg/);
    assert.deepEqual([drawing?.['width'], drawing?.['topic']], [2, 'door']);
    red.send('drawn', { frame: Buffer.alloc(99_999) });
    await until('the badge', () => red.badges.get('drawn')?.text === '0.1 MB, limit 0.01');
    const { drawn } = await ask({ drawn: null });
    assert.equal(drawn?.problem, '0.1 MB, limit 0.01');
  });

  test('refuses a request that names no versions', async () => {
    assert.equal((await fetch(`${red.url}/admin/modelets/pictures?seen=7`)).status, 400);
  });

  test('with settings that it cannot use, it still passes messages on', async () => {
    await red.deploy([TAB, node('bad', 'modelet-view', ['next', []], { picture: 'a[', rate: '0' }), sink('next')]);
    const passed = red.inputs('next');
    red.send('bad', { payload: 1 });
    await until('the message', () => passed.length === 1);
    assert.match(red.badges.get('bad')?.text ?? '', /^Rate: must be >= 0\.1/);
  });
});
