/** Inputs that every model of a task takes: for the warm-up, for the trial of batches, and for people to see. */
import { TASKS, type TaskInput } from '../../../config/tasks/tasks.ts';
import { encodePng } from '../../../core/pictures/png.ts';
import type { TaskSource } from './library.ts';

/** Sizes of the pictures, which differ so that a batch has different ones. */
const SIZES = [
  [64, 48],
  [48, 64],
  [80, 60],
] as const;
const TEXTS = [
  'This is a good example.',
  'Anna lives in Paris and works there for a company that makes red bicycles, which are not cheap.',
  'No.',
] as const;
const RATE = 8000;
const SAMPLES = 4000;

/** @returns the examples of the stage, else examples that are made here */
export async function examplesFor({ task, options, limits }: TaskSource): Promise<readonly unknown[]> {
  if (limits.examples.length > 0) return limits.examples;
  const inputs = await madeInputs(TASKS[task].input);
  const needed = Object.entries(TASKS[task].options).filter(
    ([name, option]) => !('default' in option) && options[name] === undefined,
  );
  const given = { ...Object.fromEntries(needed.map(([name]) => [name, ['first', 'second']])), ...briefly(task) };
  return Object.keys(given).length === 0 ? inputs : inputs.map((input) => ({ input, options: given }));
}

function briefly(task: TaskSource['task']): object {
  return task === 'text-generation' ? { maxTokens: 4 } : {};
}

async function madeInputs(kind: TaskInput): Promise<unknown[]> {
  if (kind === 'text') return [...TEXTS];
  if (kind === 'question') return TEXTS.slice(0, 2).map((context) => ({ question: 'Where is it?', context }));
  if (kind === 'prompt') return [TEXTS[0]];
  if (kind === 'sound') return [`data:audio/wav;base64,${wavOf(tone()).toString('base64')}`];
  return madePictures();
}

export function madePictures(): Promise<string[]> {
  return Promise.all(SIZES.map(pictureOf));
}

/** A PNG of colours that change from side to side. */
async function pictureOf([width, height]: readonly [number, number], at: number): Promise<string> {
  const pixels = Buffer.alloc(width * height * 3);
  for (let y = 0; y < height; y += 1)
    for (let x = 0; x < width; x += 1) {
      const colours = [(255 * x) / width, (255 * y) / height, 80 * at];
      for (const [channel, colour] of colours.entries()) pixels[(y * width + x) * 3 + channel] = colour;
    }
  const png = await encodePng({ data: pixels, width, height, channels: 3 });
  return `data:image/png;base64,${png.toString('base64')}`;
}

function tone(): Int16Array {
  return Int16Array.from({ length: SAMPLES }, (_, at) => 8000 * Math.sin((2 * Math.PI * 440 * at) / RATE));
}

/** A WAV file of one channel. */
function wavOf(samples: Int16Array): Buffer {
  const head = Buffer.alloc(44);
  head.write('RIFF', 0, 'latin1');
  head.writeUInt32LE(36 + samples.byteLength, 4);
  head.write('WAVEfmt ', 8, 'latin1');
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(RATE, 24);
  head.writeUInt32LE(RATE * 2, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write('data', 36, 'latin1');
  head.writeUInt32LE(samples.byteLength, 40);
  return Buffer.concat([head, Buffer.from(samples.buffer)]);
}
