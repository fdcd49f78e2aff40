/** Known models that take sounds, by the real library: the files that they read, and the options of Whisper. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { differenceOf } from '../../src/runtime/worker/batch/alike.ts';
import { Sounds } from '../../src/runtime/worker/media/sounds.ts';
import { type Libraries, loadLibrary } from '../../src/runtime/worker/tasks/library.ts';
import { WHISPER } from '../fixtures/known-whisper.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { inputs, type Read, run, taskLoader } from './rig.ts';

const folder = mkdtempSync(join(tmpdir(), 'modelet-sounds-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const load = taskLoader(folder);

/** 0.2 s at half the greatest level. */
const FLAC = Buffer.from(
  'ZkxhQwAAACIQABAAAAANAAANAfQA8AAABkAAAAAAAAAAAAAAAAAAAAAAhAAAKCAAAAByZWZlcmVuY2UgbGliRkxBQyAxLjQuMiAyMDIyMTAyMgAAAAD/+HQIAAY/VgEABcnH',
  'base64',
);

const label = (read: Read | undefined): unknown =>
  read && 'value' in read ? (read.value as { label: string }[])[0]?.label : read;

test('sounds come as WAV files of any rate and as FLAC, Ogg, Opus and MP3, and are limited', async () => {
  const sounds = new Sounds(await loadLibrary(repositoryRoot, 1), 16_000, 1);
  const model = await load('audio-classification', { maxSeconds: 1 });
  const wav = (rate: number, seconds: number, level: number, bits: 8 | 16 = 16): Buffer => {
    const size = bits / 8;
    const length = Math.floor(rate * seconds) * size * 2;
    const file = Buffer.alloc(44 + length);
    file.write('RIFF    WAVEfmt ', 'latin1');
    file.writeUInt32LE(16, 16);
    file.writeUInt16LE(1, 20);
    file.writeUInt16LE(2, 22);
    file.writeUInt32LE(rate, 24);
    file.writeUInt16LE(bits, 34);
    file.write('data', 36, 'latin1');
    file.writeUInt32LE(length, 40);
    for (let at = 44; at < file.length; at += size)
      if (bits === 16) file.writeInt16LE(level * 32_767, at);
      else file[at] = 128 + level * 127;
    return file;
  };
  const given = [
    wav(16_000, 0.1, 0.5),
    FLAC,
    wav(44_100, 0.1, 0.5, 8).toString('base64'),
    { data: [0, 0, 0], sampleRate: 8000 },
    { channelData: [new Float32Array(4000).fill(0.5), new Float32Array(4000).fill(0.5)], sampleRate: 48_000 },
  ];
  assert.deepEqual((await run(model, inputs(...given))).map(label), ['loud', 'loud', 'loud', 'quiet', 'loud']);
  const bad = await run(model, inputs(wav(8000, 2, 0), Buffer.from('fLaC none'), { data: 'x', sampleRate: 1 }));
  assert.deepEqual(
    bad.map((one) => 'code' in one && one.code),
    ['payload_too_large', 'invalid_input', 'invalid_input'],
  );
  for (const file of ['tone.ogg', 'tone.opus', 'tone.mp3']) {
    const tone = await sounds.read(readFileSync(join(repositoryRoot, 'test', 'fixtures', 'sounds', file)));
    const crossings = tone.filter((sample, at) => at > 0 && sample < 0 !== (tone[at - 1] as number) < 0).length;
    const level = Math.hypot(...tone) / Math.sqrt(tone.length);
    // A tone of 440 Hz at half the greatest level, of 0.2 s; MP3 begins with silence.
    assert.ok(Math.abs(crossings / (2 * 440) - 0.2) < 0.02, `${file}: ${crossings} crossings`);
    assert.ok(level > 0.25 && level < 0.4, `${file}: level ${level}`);
  }
  const withoutDecoder = new Sounds({ optional: async () => null } as unknown as Libraries, 16_000, 1);
  await assert.rejects(withoutDecoder.read(FLAC), /only WAV files are read without the package audio-decode: run/);
});

test('no sample rate makes a long sound pass for a short one', async () => {
  const sounds = new Sounds({ optional: async () => null } as unknown as Libraries, 16_000, 1);
  const given = (data: Float32Array, sampleRate: number) => sounds.read({ data, sampleRate });
  for (const rate of [4e9, Number.POSITIVE_INFINITY])
    await assert.rejects(given(new Float32Array(1e6), rate), { code: 'invalid_input', message: /sample rate/ });
  await assert.rejects(given(new Float32Array(2), 48_000), { code: 'invalid_input', message: /no samples/ });
  assert.equal((await given(new Float32Array(9600), 768_000)).length, 200);
});

test('hears with Whisper in the language that is named, or that it finds, whole or in pieces', async () => {
  const model = await load('automatic-speech-recognition', {}, WHISPER);
  const loud = Float32Array.from({ length: 16_000 }, (_, at) => Math.sin(at / 4) / 2);
  const quiet = new Float32Array(16_000);
  const both = Float32Array.from([...loud, ...quiet]);
  const timed = { text: ' loud loud quiet', parts: [{ text: ' loud loud quiet', start: 0, end: 1.83 }] };
  const cases: readonly (readonly [Float32Array, object, object])[] = [
    [loud, {}, { text: ' laut', language: 'de' }],
    [loud, { language: 'english' }, { text: ' loud' }],
    [quiet, { language: 'de', translate: true }, { text: ' translated' }],
    [both, { language: 'en' }, { text: ' loud' }],
    [both, { language: 'en', chunkSeconds: 1, timestamps: 'segments' }, timed],
  ];
  for (const [input, options, wanted] of cases) {
    const [read] = await run(model, inputs({ input, options }));
    assert.equal(differenceOf([read], [{ value: wanted }]), null, JSON.stringify(read));
  }
  const refused = [{ language: 'xx' }, { chunkSeconds: 60 }, { language: 'en', timestamps: 'words' }];
  const read = await run(model, inputs(...refused.map((options) => ({ input: quiet, options }))));
  assert.deepEqual(
    read.map((one) => 'code' in one && [one.code, one.message.slice(0, 58)]),
    [
      ['invalid_input', 'options/language: the model knows no language xx; it knows'],
      ['invalid_input', 'options/chunkSeconds must be <= 30'],
      ['modelet_failed', 'Model generation config has no `alignment_heads`, token-le'],
    ],
  );
});
