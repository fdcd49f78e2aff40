/** Keeps the slowest requests of the last minutes and breaks down where their time went. */

import { Slowest } from '../observe/meters/slowest.ts';
import { breakDown, type SettledRequest, type SlowRequest } from '../observe/views/breakdown.ts';
import type { Caller, OpenRequest, Settlement } from './ledger.ts';

interface NamedCaller extends Caller {
  readonly requestId: string;
  readonly gateMs: number;
}

export class SlowRequests {
  readonly #slowest: Slowest<SettledRequest> = new Slowest();

  /** Notes a settled request. Runs for every request, so it returns early for one that is too fast to keep. */
  note({ caller, openedAt, sentAt }: OpenRequest<NamedCaller>, { outcome, timings }: Settlement, at: number): void {
    const { requestId, gateMs } = caller;
    const totalMs = gateMs + at - openedAt;
    if (!this.#slowest.accepts(at, totalMs)) return;
    const entranceMs = Math.min(at, sentAt) - openedAt;
    const code = outcome.ok ? 'ok' : outcome.error.code;
    const stage = (outcome.ok ? undefined : outcome.error.stage) ?? null;
    this.#slowest.add(at, totalMs, { requestId, code, stage, totalMs, gateMs, entranceMs, timings });
  }

  /** Returns the kept requests, slowest first. */
  list(now: number, nameOf: (ref: number) => string): SlowRequest[] {
    return this.#slowest.list(now).map(({ at, request }) => breakDown(request, now - at, nameOf));
  }
}
