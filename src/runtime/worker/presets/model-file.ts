/**
 * Reads what onnxruntime-node does not tell of the file of an ONNX model: its metadata, and the operators that make its
 * outputs. A file in another form has neither.
 */
import { closeSync, openSync, readSync, statSync } from 'node:fs';

export interface ModelFile {
  /** The notes that its exporter has written into it, such as the `names` of classes by Ultralytics. */
  readonly metadata: ReadonlyMap<string, string>;
  /** By the name of a value, the operator that makes it. */
  readonly nodes: ReadonlyMap<string, ModelNode>;
}

interface ModelNode {
  readonly operator: string;
  readonly input: string;
}

/** A field of a message of Protocol Buffers, with the place of its bytes in the file. */
interface MessageField {
  readonly number: number;
  readonly start: number;
  readonly end: number;
}

const CHUNK = 65_536;
/** Numbers of the fields in onnx.proto. */
const MODEL = { graph: 7, metadata: 14 } as const;
const ENTRY = { key: 1, value: 2 } as const;
const GRAPH = { node: 1 } as const;
const NODE = { input: 1, output: 2, operator: 4 } as const;
/** Operators that leave the values as they are. */
const SHAPING: ReadonlySet<string> = new Set([
  ...(['Identity', 'Cast', 'Reshape', 'Flatten', 'Squeeze', 'Unsqueeze', 'Transpose', 'Concat'] as const),
]);

export function readModelFile(path: string): ModelFile {
  const metadata = new Map<string, string>();
  const nodes = new Map<string, ModelNode>();
  const file = openSync(path, 'r');
  try {
    const reader = new FieldReader(file);
    for (const field of reader.fields(0, statSync(path).size)) {
      if (field.number === MODEL.metadata) {
        const texts = reader.texts(field);
        metadata.set(texts.get(ENTRY.key)?.[0] ?? '', texts.get(ENTRY.value)?.[0] ?? '');
      }
      if (field.number !== MODEL.graph) continue;
      for (const inner of reader.fields(field.start, field.end))
        if (inner.number === GRAPH.node) addNode(reader, inner);
    }
  } catch {
    // Not in the form of onnx.proto: onnxruntime-node says whether it is a model.
  } finally {
    closeSync(file);
  }
  return { metadata, nodes };

  function addNode(reader: FieldReader, field: MessageField): void {
    const texts = reader.texts(field, Object.values(NODE));
    const node = { operator: texts.get(NODE.operator)?.[0] ?? '', input: texts.get(NODE.input)?.[0] ?? '' };
    for (const output of texts.get(NODE.output) ?? []) nodes.set(output, node);
  }
}

/** Returns the operator that computes a value, behind those that only change its shape or type; null: not known. */
export function operatorOf(name: string, { nodes }: ModelFile): string | null {
  let node = nodes.get(name);
  for (let steps = 0; node && SHAPING.has(node.operator) && steps < nodes.size; steps += 1)
    node = nodes.get(node.input);
  return node?.operator ?? null;
}

/** Reads messages from a file piece by piece: most of a model is weights, which it skips. */
class FieldReader {
  readonly #file: number;
  readonly #chunk = Buffer.alloc(CHUNK);
  #start = 0;
  #length = 0;
  #at = 0;

  constructor(file: number) {
    this.#file = file;
  }

  /** @throws Error where the bytes are no message */
  *fields(start: number, end: number): Generator<MessageField> {
    for (let next = start; next < end; ) {
      this.#at = next;
      const tag = this.#varint();
      next = this.#endOf(tag % 8);
      if (next > end) throw new Error('a field reaches beyond its message');
      yield { number: Math.floor(tag / 8), start: this.#at, end: next };
    }
  }

  /** Returns the end of a field, at whose bytes the reader then is. @param kind how the field is written */
  #endOf(kind: number): number {
    if (kind === 0) this.#varint();
    else if (kind === 2) {
      const length = this.#varint();
      return this.#at + length;
    } else if (kind !== 1 && kind !== 5) throw new Error('no message');
    return this.#at + (kind === 1 ? 8 : kind === 5 ? 4 : 0);
  }

  /** Returns the texts among the fields of a message, by their numbers. */
  texts({ start, end }: MessageField, numbers: readonly number[] = Object.values(ENTRY)): Map<number, string[]> {
    const texts = new Map<number, string[]>();
    for (const field of this.fields(start, end)) {
      if (!numbers.includes(field.number)) continue;
      const bytes = Buffer.alloc(field.end - field.start);
      readSync(this.#file, bytes, 0, bytes.length, field.start);
      texts.set(field.number, [...(texts.get(field.number) ?? []), bytes.toString()]);
    }
    return texts;
  }

  #varint(): number {
    let value = 0;
    for (let scale = 1; scale < 2 ** 56; scale *= 128) {
      const byte = this.#byte();
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
    // Negative numbers have ten bytes; none of them is looked at here.
    while (this.#byte() >= 128);
    return value;
  }

  #byte(): number {
    if (this.#at < this.#start || this.#at >= this.#start + this.#length) {
      this.#start = this.#at;
      this.#length = readSync(this.#file, this.#chunk, 0, CHUNK, this.#at);
      if (this.#length === 0) throw new Error('the file ends early');
    }
    this.#at += 1;
    return this.#chunk[this.#at - 1 - this.#start] as number;
  }
}
