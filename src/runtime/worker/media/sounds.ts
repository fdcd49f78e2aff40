/** Reads sounds: WAV files, other files with the optional package audio-decode, and samples. Gives one channel at the model's rate. */
import { types } from 'node:util';
import { asError } from '../../../core/errors.ts';
import { isFields } from '../../../core/objects.ts';
import type { Libraries } from '../tasks/library.ts';
import { beyondLimit, fileBytes, type InputFields, notTaken } from './files.ts';
import { readWav, type Sound } from './wav.ts';

/** Decodes FLAC, Ogg, Opus and MP3 with WebAssembly, so that nothing is built at its installation. */
const DECODER = 'audio-decode';
const WHAT =
  'a sound is the bytes of a file, base64, a data URL, {data, sampleRate} with samples from -1 to 1, or a Float32Array at the rate of the model';
/** The highest sample rate of converters that are sold. */
const HIGHEST_RATE = 768_000;
/** Zero crossings of the filter on each side of a sample, when the rate changes. */
const CROSSINGS = 16;

interface Decoder {
  readonly default: (
    bytes: Uint8Array,
  ) => Promise<{ readonly channelData: readonly Float32Array[]; readonly sampleRate: number }>;
}

export class Sounds {
  readonly #libraries: Libraries;
  readonly #rate: number;
  readonly #maxSeconds: number;

  /** @param rate samples in a second that the model takes */
  constructor(libraries: Libraries, rate: number, maxSeconds: number) {
    this.#libraries = libraries;
    this.#rate = rate;
    this.#maxSeconds = maxSeconds;
  }

  /** @throws ModeletError `invalid_input` for what is no sound, `payload_too_large` for a sound that is too long */
  async read(value: unknown): Promise<Float32Array> {
    const sound = samplesIn(value, this.#rate) ?? (await this.#decode(value));
    const length = sound.channels[0]?.length ?? 0;
    // A long sound at a rate that no sound has would pass for a short one.
    if (sound.rate > HIGHEST_RATE) throw notTaken(`its sample rate is ${sound.rate}; the limit is ${HIGHEST_RATE}`);
    // A decoder gives no channels at a rate of 0 for a file without frames: the length is then no number.
    if (!(Math.floor((length * this.#rate) / sound.rate) >= 1)) throw notTaken('the sound has no samples');
    const seconds = length / sound.rate;
    if (seconds > this.#maxSeconds)
      throw beyondLimit(`the sound has ${seconds.toFixed(1)} s; the limit is ${this.#maxSeconds} s (maxSeconds)`);
    return atRate(mixed(sound.channels), sound.rate, this.#rate);
  }

  async #decode(value: unknown): Promise<Sound> {
    const bytes = fileBytes(value);
    if (bytes === null) throw notTaken(typeof value === 'string' ? `the text is not base64: ${WHAT}` : WHAT);
    try {
      const wav = readWav(bytes);
      if (wav) return wav;
      const decoder = (await this.#libraries.optional(DECODER)) as Decoder | null;
      if (!decoder)
        throw new Error(`only WAV files are read without the package ${DECODER}: run "npm install ${DECODER}"`);
      const { channelData, sampleRate } = await decoder.default(bytes);
      return { channels: channelData, rate: sampleRate };
    } catch (thrown) {
      throw notTaken(`the sound cannot be read: ${asError(thrown).message}`, thrown);
    }
  }
}

/** Finds samples in a value; null if it has another form. */
function samplesIn(value: unknown, rate: number): Sound | null {
  if (isSamples(value)) return { channels: [value], rate };
  if (!isFields(value)) return null;
  const { data, channelData, sampleRate } = value as InputFields;
  if (sampleRate === undefined) return null;
  if (typeof sampleRate !== 'number' || !(sampleRate > 0))
    throw notTaken('sampleRate must be a number of samples in a second');
  const channels = (Array.isArray(channelData) ? channelData : [data]).map(samplesOf);
  if (channels.some(({ length }) => length !== channels[0]?.length))
    throw notTaken('its channels must be of one length');
  return { channels, rate: sampleRate };
}

function samplesOf(data: unknown): Float32Array {
  if (isSamples(data)) return data;
  if (types.isFloat64Array(data)) return Float32Array.from(data);
  if (types.isInt16Array(data)) return Float32Array.from(data, (sample) => sample / 32_768);
  if (Array.isArray(data) && data.every((sample) => typeof sample === 'number'))
    return Float32Array.from(data as number[]);
  throw notTaken('its samples must be numbers from -1 to 1');
}

function isSamples(value: unknown): value is Float32Array {
  return types.isFloat32Array(value);
}

function mixed(channels: readonly Float32Array[]): Float32Array {
  const [first] = channels as [Float32Array];
  if (channels.length === 1) return first;
  return Float32Array.from(
    first,
    (_, at) => channels.reduce((sum, one) => sum + (one[at] as number), 0) / channels.length,
  );
}

/** Changes the rate with a windowed sinc filter, which also takes out what the new rate cannot hold. */
function atRate(samples: Float32Array, from: number, to: number): Float32Array {
  if (from === to) return samples;
  const scale = Math.min(1, to / from);
  const reach = CROSSINGS / scale;
  const result = new Float32Array(Math.floor((samples.length * to) / from));
  for (let at = 0; at < result.length; at += 1) {
    const centre = (at * from) / to;
    let sum = 0;
    let weights = 0;
    const last = Math.min(samples.length - 1, Math.floor(centre + reach));
    for (let source = Math.max(0, Math.ceil(centre - reach)); source <= last; source += 1) {
      const weight = kernel((source - centre) * scale);
      sum += weight * (samples[source] as number);
      weights += weight;
    }
    result[at] = weights === 0 ? 0 : sum / weights;
  }
  return result;
}

/** A sinc with a Hann window. */
function kernel(distance: number): number {
  if (distance === 0) return 1;
  const angle = Math.PI * distance;
  return (Math.sin(angle) / angle) * (0.5 + 0.5 * Math.cos(angle / CROSSINGS));
}
