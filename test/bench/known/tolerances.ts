/** How far answers may be from those of Python, and why. */
import type { Differences } from './differences.ts';

/** By the task. */
const TASKS: Readonly<Record<string, Differences>> = {
  'feature-extraction': { '1 - cosine': 1e-6 },
  'text-classification': { labels: 0, scores: 1e-5 },
  'zero-shot-classification': { labels: 0, scores: 1e-5 },
  'token-classification': { words: 0, scores: 1e-5 },
  'question-answering': { answers: 0, scores: 1e-5 },
  'text-generation': { texts: 0 },
  // Some pixels are one step of colour apart: torchvision computes them with fewer bits than Pillow.
  'image-classification': { labels: 0, scores: 1e-3 },
  'zero-shot-image-classification': { labels: 0, scores: 1e-3 },
  'image-feature-extraction': { '1 - cosine': 5e-6 },
  'object-detection': { objects: 0, pixels: 1, scores: 2e-3 },
  'image-segmentation': { labels: 0, 'share of pixels': 4e-3, scores: 1e-3 },
  // Python enlarges the depth to the picture by another filter.
  'depth-estimation': { '1 - cosine': 2e-3 },
  'automatic-speech-recognition': { texts: 0 },
  'audio-classification': { labels: 0, scores: 1e-5 },
};

export function allowedFor(task: string): Differences {
  return TASKS[task] ?? {};
}
