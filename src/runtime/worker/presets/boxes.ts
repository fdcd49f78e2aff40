/** Reads boxes from the outputs of detectors: YOLO with and without NMS inside, YOLOv5, and DETR with its relatives. */
import type { TaskValues } from '../../../config/tasks/task-options.ts';
import { type Box, type Placement, type Size, toPicture } from './placement.ts';
import { best, scored } from './scores.ts';

export interface Output {
  readonly name: string;
  readonly dims: readonly number[];
  readonly data: ArrayLike<number>;
}

/** A box in pixels of the model's input. */
interface Candidate extends Box {
  readonly index: number;
  readonly score: number;
}

interface WantedBoxes {
  readonly form: unknown;
  /** How the classes of DETR become scores. */
  readonly scoring: string;
  readonly labels: readonly string[] | null;
  readonly options: TaskValues;
  /** Size of the model's input. */
  readonly size: Size;
}

/** More are left out before they are compared with each other, by their scores. */
const MOST_COMPARED = 30_000;

/** @throws Error if the outputs are no boxes of the form */
export function boxesOf(outputs: readonly Output[], wanted: WantedBoxes, placement: Placement): object[] {
  const form = wanted.form === 'auto' ? formOf(outputs, wanted.labels) : wanted.form;
  const { threshold, iou, topK } = wanted.options as Readonly<Record<string, number>>;
  const found = READERS[form as keyof typeof READERS](outputs, wanted)
    .filter(({ score }) => score > (threshold as number))
    .sort((one, other) => other.score - one.score)
    .slice(0, MOST_COMPARED);
  const kept = form === 'detr' || form === 'yoloNms' ? found : distinct(found, iou as number);
  return kept.slice(0, topK).map(({ index, score, ...box }) => ({
    label: wanted.labels?.[index] ?? String(index),
    score,
    box: toPicture(box, placement),
  }));
}

function formOf(outputs: readonly Output[], labels: readonly string[] | null): keyof typeof READERS {
  if (boxesIn(outputs) && outputs.length > 1) return 'detr';
  const [rows = 0, columns = 0] = tableIn(outputs).dims;
  const classes = labels?.length ?? null;
  if (rows === 4 + (classes ?? Number.NaN)) return 'yolo';
  if (columns === 5 + (classes ?? Number.NaN) && classes !== 1) return 'yolo5';
  if (columns === 6) return 'yoloNms';
  return rows < columns ? 'yolo' : 'yolo5';
}

/** The output with four columns; of several that of such a name, because a model may have four classes. */
function boxesIn(outputs: readonly Output[]): Output | undefined {
  const found = outputs.filter(({ dims }) => dims.length === 2 && dims[1] === 4);
  return found.find(({ name }) => /box/i.test(name)) ?? found[0];
}

/** The first output with rows and columns. */
function tableIn(outputs: readonly Output[]): Output {
  const output = outputs.find(({ dims }) => dims.length === 2);
  if (output) return output;
  const shapes = outputs.map(({ dims }) => `[${dims.join(', ')}]`).join(', ');
  throw new Error(`"gives": "boxes": no output has rows and columns; they have the shapes ${shapes}`);
}

const READERS = {
  /** [4 and the classes, boxes]: the middle and the size of a box, and a score for each class. */
  yolo(outputs: readonly Output[], { labels, options }: WantedBoxes): Candidate[] {
    const { dims, data } = tableIn(outputs);
    const [rows = 0, count = 0] = dims;
    // Behind the classes there may be factors of a mask.
    const classes = Math.min(labels?.length ?? Number.POSITIVE_INFINITY, rows - 4);
    const value = (row: number, at: number): number => data[row * count + at] as number;
    const best = new Float32Array(count).fill(Number(options['threshold']));
    const index = new Int32Array(count).fill(-1);
    for (let of = 0; of < classes; of += 1)
      for (let at = 0, from = (4 + of) * count; at < count; at += 1, from += 1)
        if ((data[from] as number) > (best[at] as number)) {
          best[at] = data[from] as number;
          index[at] = of;
        }
    const found: Candidate[] = [];
    for (let at = 0; at < count; at += 1) {
      if ((index[at] as number) < 0) continue;
      const box = around(value(0, at), value(1, at), value(2, at), value(3, at));
      found.push({ ...box, index: index[at] as number, score: best[at] as number });
    }
    return found;
  },
  /** [boxes, 5 and the classes]: as before, with a score for the box itself behind its size. */
  yolo5(outputs: readonly Output[], { labels, options }: WantedBoxes): Candidate[] {
    const { dims, data } = tableIn(outputs);
    const [count = 0, columns = 0] = dims;
    const classes = Math.min(labels?.length ?? Number.POSITIVE_INFINITY, columns - 5);
    return Array.from({ length: count }, (_, at) => rowOf(data, at, columns))
      .filter((row) => (row[4] as number) > Number(options['threshold']))
      .map(([x = 0, y = 0, width = 0, height = 0, own = 0, ...scores]) => {
        const { index, score } = best(scores.slice(0, classes));
        return { ...around(x, y, width, height), index, score: own * score };
      });
  },
  /** [boxes, 6]: two corners, score and class. */
  yoloNms(outputs: readonly Output[]): Candidate[] {
    const { dims, data } = tableIn(outputs);
    const [count = 0, columns = 0] = dims;
    return Array.from({ length: count }, (_, at) => {
      const [xmin = 0, ymin = 0, xmax = 0, ymax = 0, score = 0, index = 0] = rowOf(data, at, columns);
      return { xmin, ymin, xmax, ymax, score, index: Math.round(index) };
    });
  },
  /** A score of each class for each box, and its middle and size as shares of the input. */
  detr(outputs: readonly Output[], { labels, scoring, size }: WantedBoxes): Candidate[] {
    const boxes = boxesIn(outputs);
    const classes = outputs.find((output) => output !== boxes && output.dims[0] === boxes?.dims[0]);
    if (!boxes || !classes) throw new Error('"boxes": "detr": the model has no output with scores and one with boxes');
    const [count = 0, width = 0] = classes.dims;
    // With one more than there are labels, the last stands for no object.
    const isEach = scoring === 'sigmoid' || (scoring !== 'softmax' && width === labels?.length);
    const how = scoring === 'auto' ? (isEach ? 'sigmoid' : 'softmax') : scoring;
    const scores = scored(classes.data, width, how);
    return Array.from({ length: count }, (_, at): Candidate[] => {
      const [x, y, wide, tall] = rowOf(boxes.data, at, 4) as [number, number, number, number];
      const box = around(x * size.width, y * size.height, wide * size.width, tall * size.height);
      const own = rowOf(scores, at, width);
      if (isEach) return own.map((score, index) => ({ ...box, index, score }));
      const { index, score } = best(own);
      return index === width - 1 ? [] : [{ ...box, index, score }];
    }).flat();
  },
} as const;

function rowOf(data: ArrayLike<number>, row: number, width: number): number[] {
  return Array.from({ length: width }, (_, at) => data[row * width + at] as number);
}

function around(x: number, y: number, width: number, height: number): Box {
  return { xmin: x - width / 2, ymin: y - height / 2, xmax: x + width / 2, ymax: y + height / 2 };
}

/** Leaves out boxes that overlap a better one of the same class. @param found the best first */
function distinct(found: readonly Candidate[], most: number): Candidate[] {
  const kept = new Map<number, Candidate[]>();
  return found.filter((one) => {
    const others = kept.get(one.index) ?? [];
    if (others.some((other) => overlap(one, other) > most)) return false;
    others.push(one);
    kept.set(one.index, others);
    return true;
  });
}

/** Returns what two boxes have in common, as a share of what they cover together. */
function overlap(one: Box, other: Box): number {
  const width = Math.min(one.xmax, other.xmax) - Math.max(one.xmin, other.xmin);
  const height = Math.min(one.ymax, other.ymax) - Math.max(one.ymin, other.ymin);
  if (width <= 0 || height <= 0) return 0;
  const area = ({ xmin, ymin, xmax, ymax }: Box): number => (xmax - xmin) * (ymax - ymin);
  return (width * height) / (area(one) + area(other) - width * height);
}
