/**
 * Previews of pictures: the newest picture of each node of the type modelet-view. An editor asks for the pictures that its
 * user sees, and gets an answer when one of them is new. A picture that no editor asks for is not drawn.
 */
import type { Request, RequestHandler, Response } from 'express';
import type { NodeAPI } from 'node-red';
import { type Clock, type Deadline, systemClock, type Timer } from '../../core/clock.ts';
import { asError } from '../../core/errors.ts';
import { logFault } from '../log.ts';
import { type DrawingLimits, type DrawnPicture, drawPicture } from './drawn-picture.ts';

/** Longest time until an editor is answered that nothing is new, in ms. It then asks again, with its permission. */
const LONGEST_WAIT_MS = 20_000;

export interface PreviewSettings extends DrawingLimits {
  /** Most pictures per second. */
  readonly rate: number;
}

/** A drawn picture, or why there is no drawing. */
type Shown = DrawnPicture | { readonly problem: string };

interface TakenPicture {
  readonly picture: unknown;
  readonly results: unknown;
}

export class Preview {
  readonly #settings: PreviewSettings;
  readonly #clock: Clock;
  /** Called when another picture is the one to show. */
  readonly #onChange: () => void;
  #newest: TakenPicture | null = null;
  #drawing: Promise<Shown> | null = null;
  #timer: Timer | null = null;
  #lastAt: Deadline = Number.NEGATIVE_INFINITY;
  /** Identifies the picture to show. A restarted Node-RED must not begin with versions that an editor has seen. */
  #version: number = Math.floor(Math.random() * 2 ** 40);

  constructor(settings: PreviewSettings, onChange: () => void, clock: Clock = systemClock) {
    this.#settings = settings;
    this.#onChange = onChange;
    this.#clock = clock;
  }

  /** The version of the picture to show; null before the first one. */
  get version(): number | null {
    return this.#newest ? this.#version : null;
  }

  /** Takes a message's picture: it replaces a picture that waits for its turn. */
  take(taken: TakenPicture): void {
    this.#newest = taken;
    const due = this.#lastAt + 1000 / this.#settings.rate;
    if (this.#timer) return;
    if (this.#clock.now() >= due) this.#change();
    else
      this.#timer = this.#clock.at(due, () => {
        this.#timer = null;
        this.#change();
      });
  }

  /** Draws the newest picture, once for all who ask. */
  drawn(): Promise<Shown> {
    const { picture, results } = this.#newest ?? {};
    this.#drawing ??= drawPicture(picture, results, this.#settings).catch((thrown: unknown) => ({
      problem: asError(thrown).message,
    }));
    return this.#drawing;
  }

  close(): void {
    this.#timer?.cancel();
  }

  #change(): void {
    this.#lastAt = this.#clock.now();
    this.#version += 1;
    this.#drawing = null;
    this.#onChange();
  }
}

interface WatchedNode {
  readonly preview: Preview;
  /** Shows on the node why its picture is not drawn; null: it is. */
  readonly tell: (problem: string | null) => void;
}

export class Previews {
  readonly #nodes: Map<string, WatchedNode> = new Map();
  /** Wakes the requests that wait for a new picture. */
  readonly #waiting: Set<() => void> = new Set();

  /** Returns the preview of a node until `remove`. */
  add(id: string, settings: PreviewSettings, tell: WatchedNode['tell'], onChange: () => void): Preview {
    const preview = new Preview(settings, () => {
      onChange();
      for (const wake of this.#waiting) wake();
    });
    this.#nodes.set(id, { preview, tell });
    return preview;
  }

  remove(id: string, preview: Preview): void {
    preview.close();
    if (this.#nodes.get(id)?.preview === preview) this.#nodes.delete(id);
  }

  /** Registers the route. Call once per Node-RED process. */
  serve(RED: NodeAPI, mayRead: RequestHandler): void {
    RED.httpAdmin.get('/modelets/pictures', mayRead, (request, response) => {
      const seen = seenIn(request);
      if (!seen) response.sendStatus(400);
      else
        this.#answer(seen, response).catch((thrown: unknown) => {
          logFault(RED, 'a preview could not be sent', thrown);
          response.end();
        });
    });
  }

  /** @param seen by the id of a node, the version that the editor shows */
  async #answer(seen: ReadonlyMap<string, unknown>, response: Response): Promise<void> {
    if (seen.size > 0 && this.#unseen(seen).length === 0) await this.#change(seen, response);
    const pictures = this.#unseen(seen).map(async ([id, { preview, tell }]) => {
      const { version } = preview;
      const shown = await preview.drawn();
      tell('problem' in shown ? shown.problem : null);
      return [id, { version, ...shown }] as const;
    });
    response.set('Cache-Control', 'no-store').json(Object.fromEntries(await Promise.all(pictures)));
  }

  #unseen(seen: ReadonlyMap<string, unknown>): (readonly [string, WatchedNode])[] {
    return [...seen].flatMap(([id, version]) => {
      const node = this.#nodes.get(id);
      return node && node.preview.version !== null && node.preview.version !== version ? [[id, node] as const] : [];
    });
  }

  /** Resolves when there is a picture to send, when the wait is over, or when the editor has gone. */
  #change(seen: ReadonlyMap<string, unknown>, response: Response): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        timer.cancel();
        this.#waiting.delete(look);
        resolve();
      };
      const look = (): void => {
        if (this.#unseen(seen).length > 0) end();
      };
      const timer = systemClock.at(systemClock.now() + LONGEST_WAIT_MS, end);
      this.#waiting.add(look);
      response.once('close', end);
    });
  }
}

/** Reads `?seen={"id":version}`; null if it is no JSON object. */
function seenIn({ query }: Request): ReadonlyMap<string, unknown> | null {
  try {
    const seen: unknown = JSON.parse(String(query['seen']));
    return typeof seen === 'object' && seen !== null ? new Map(Object.entries(seen)) : null;
  } catch {
    return null;
  }
}
