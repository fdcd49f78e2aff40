/** What a full queue does with one more item: one of them goes. */
import type { ModeletError } from '../../core/errors.ts';
import type { StageDefinition } from '../../core/model.ts';
import type { Item } from './item.ts';
import { dropped, queueFull } from './stage-errors.ts';
import type { StageQueue } from './stage-queue.ts';

interface Refused {
  readonly item: Item;
  readonly error: ModeletError;
}

/** Puts the item in the place of another, or nowhere; who goes, and why. `meanRunMs`: see `queueFull`. */
export function enterFull(queue: StageQueue, item: Item, definition: StageDefinition, meanRunMs: number): Refused {
  const { name, overflow } = definition;
  if (overflow !== 'drop-oldest') return { item, error: queueFull(definition, meanRunMs) };
  const victim = queue.victim(item.group);
  if (!victim || victim.priority > item.priority) {
    return { item, error: dropped(name, 'the queue is full of more important ones') };
  }
  queue.replace(victim, item);
  return { item: victim, error: dropped(name, 'a newer one came and the queue was full') };
}
