/** Reads WAV files: whole numbers of 8 to 32 bits and floats, of any rate and number of channels. */

export interface Sound {
  /** The samples of each channel, from -1 to 1. */
  readonly channels: readonly Float32Array[];
  readonly rate: number;
}

const PCM = 1;
const FLOAT = 3;
/** The format stands behind the usual fields. */
const EXTENSIBLE = 0xfffe;

/** Returns null for other files. @throws Error for a WAV file that cannot be read */
export function readWav(bytes: Uint8Array): Sound | null {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  if (file.length < 12 || file.toString('latin1', 0, 4) !== 'RIFF' || file.toString('latin1', 8, 12) !== 'WAVE')
    return null;
  let format: Buffer | null = null;
  for (let at = 12; at + 8 <= file.length; ) {
    const name = file.toString('latin1', at, at + 4);
    const length = file.readUInt32LE(at + 4);
    const chunk = file.subarray(at + 8, at + 8 + length);
    if (name === 'fmt ') format = chunk;
    if (name === 'data') return decode(format, chunk);
    at += 8 + length + (length % 2);
  }
  throw new Error('the WAV file has no samples');
}

function decode(format: Buffer | null, samples: Buffer): Sound {
  if (format === null || format.length < 16) throw new Error('the WAV file does not say its format');
  const given = format.readUInt16LE(0);
  const kind = given === EXTENSIBLE && format.length >= 26 ? format.readUInt16LE(24) : given;
  const count = format.readUInt16LE(2);
  const rate = format.readUInt32LE(4);
  const bits = format.readUInt16LE(14);
  const read = readerOf(kind, bits, samples);
  if (!read || count === 0 || rate === 0)
    throw new Error(`WAV files of the format ${kind} with ${bits} bits are not read`);
  const size = bits / 8;
  const length = Math.floor(samples.length / (size * count));
  const channels = Array.from({ length: count }, (_, channel) =>
    Float32Array.from({ length }, (_of, at) => read((at * count + channel) * size)),
  );
  return { channels, rate };
}

function readerOf(kind: number, bits: number, samples: Buffer): ((at: number) => number) | null {
  if (kind === FLOAT && bits === 32) return (at) => samples.readFloatLE(at);
  if (kind === FLOAT && bits === 64) return (at) => samples.readDoubleLE(at);
  if (kind !== PCM) return null;
  if (bits === 8) return (at) => ((samples[at] as number) - 128) / 128;
  if (bits !== 16 && bits !== 24 && bits !== 32) return null;
  return (at) => samples.readIntLE(at, bits / 8) / 2 ** (bits - 1);
}
