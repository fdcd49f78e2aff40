/**
 * The dashboard of the runtimes: a page, its files, and the events that it draws. The page and its files say nothing about
 * this Node-RED and need no permission, as the editor's own do not: a browser sends no token with the address of a page.
 * The events do, and have all that is shown.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { RequestHandler, Response } from 'express';
import type { NodeAPI } from 'node-red';
import { type Clock, type Deadline, systemClock, wallTimeAt } from '../../core/clock.ts';
import type { GateSnapshot } from '../../observe/views/gate-snapshot.ts';
import { type Added, type ColouredStage, RuntimeHistory, STEP_MS } from '../../observe/views/history.ts';
import type { Measurement } from '../../observe/views/interval.ts';
import { type View, viewBetween } from '../../observe/views/view.ts';
import type { Service } from '../../runtime/service/service.ts';
import { logFault } from '../log.ts';
import type { Pipeline } from '../pipeline.ts';
import { aroundOf } from './live-view.ts';

/** Time after which the page must ask again, so that an account that lost its permission loses the view as well. */
const LONGEST_MS = 600_000;
/** Most bytes that wait for a page that does not read. */
const MOST_UNREAD = 2 ** 22;
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src data:";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const RESOURCES = here('../../../../resources');
/** Folders of files, by the route that serves them. */
const FOLDERS = {
  page: RESOURCES,
  said: join(RESOURCES, 'said'),
  plots: dirname(createRequire(import.meta.url).resolve('uplot')),
  texts: here('../../../nodes/locales'),
} as const;

const ENGLISH = 'en-US';

/** The labels of a dialog by the property, below the type of its node. */
type LabelCatalog = Readonly<Record<string, { readonly label?: Readonly<Record<string, string>> }>>;

/** An open page. */
interface OpenPage {
  /** Id of the runtime to show; '': the first. */
  readonly runtime: string;
  readonly response: Response;
  readonly until: Deadline;
  /** The history of which the page has all points; null: of none. */
  shown: RuntimeHistory | null;
}

/** A runtime as it was looked at last. */
interface Watched {
  readonly service: Service;
  readonly history: RuntimeHistory;
  look: Measurement;
}

interface DashboardEvent extends Added {
  readonly runtimes: readonly { readonly id: string; readonly name: string }[];
  /** Id of the runtime that is shown; null: the wanted one does not run. */
  readonly runtime: string | null;
  /** Whether `points` and `marks` are all there are, and not only those that are new. */
  readonly isWhole: boolean;
  readonly stages: readonly ColouredStage[];
  readonly now: Present | null;
}

/** The present state of a runtime. */
interface Present extends Pick<View['runtimes'][number], 'backlog' | 'capacity' | 'state' | 'pid' | 'rssBytes'> {
  readonly findings: readonly { readonly kind: string; readonly text: string }[];
  readonly stages: readonly Pick<View['runtimes'][number]['stages'][number], 'id' | 'health' | 'whole' | 'workers'>[];
  readonly gates: readonly Pick<
    GateSnapshot,
    'id' | 'name' | 'open' | 'why' | 'budget' | 'quota' | 'inFlight' | 'waiting'
  >[];
}

/** Looks at the runtimes every `STEP_MS`, also while no page is open: a page that opens late shows the last minutes. */
export class DashboardPage {
  readonly #pipeline: Pipeline;
  readonly #clock: Clock;
  #watched: ReadonlyMap<string, Watched> = new Map();
  readonly #pages: Set<OpenPage> = new Set();

  constructor(pipeline: Pipeline, clock: Clock = systemClock) {
    this.#pipeline = pipeline;
    this.#clock = clock;
  }

  /** Registers the routes and begins to look. Call once per Node-RED process. */
  serve(RED: NodeAPI, mayRead: RequestHandler): void {
    RED.httpAdmin.get('/modelets/dashboard', (request, response) => {
      // The page names its files relative to its own address, as a proxy may have put a path before it.
      if (request.path.endsWith('/')) response.redirect('../dashboard');
      else response.set('Content-Security-Policy', POLICY).sendFile('dashboard.html', { root: RESOURCES });
    });
    for (const [folder, root] of Object.entries(FOLDERS)) {
      RED.httpAdmin.get(`/modelets/dashboard/${folder}/:file`, (request, response) => {
        const { file } = request.params as { file: string };
        if (folder === 'said') {
          sendSaid(file, response);
          return;
        }
        const name = folder === 'texts' ? `${file}/modelet-dashboard.json` : file;
        response.sendFile(name, { root }, (error) => {
          if (error && !response.headersSent) response.sendStatus(404);
        });
      });
    }
    RED.httpAdmin.get('/modelets/dashboard/events', mayRead, (request, response) => {
      this.#open(String(request.query['runtime'] ?? ''), response);
    });
    const look = (): void => {
      try {
        this.look();
      } catch (thrown) {
        // In a timer, it would end Node-RED.
        logFault(RED, 'the dashboard could not look at the runtimes', thrown);
      }
      this.#clock.at(this.#clock.now() + STEP_MS, look);
    };
    look();
  }

  /** Notes what has happened since the last look, and tells the pages. */
  look(): void {
    const added = new Map<RuntimeHistory, Added>();
    const known = this.#watched;
    this.#watched = new Map(
      this.#pipeline.services.map((service) => {
        const before = known.get(service.id);
        const look = service.measure();
        const time = Math.round(wallTimeAt(look.at));
        const history = before?.history ?? new RuntimeHistory();
        const replaced = before && before.service !== service ? [history.replaced(time)] : [];
        const { points, marks } = history.note(look, this.#gatesOf(service.id), time);
        added.set(history, { points, marks: [...replaced, ...marks] });
        return [service.id, { service, history, look }];
      }),
    );
    for (const page of this.#pages) this.#tell(page, added);
  }

  #open(runtime: string, response: Response): void {
    const page: OpenPage = { runtime, response, until: this.#clock.now() + LONGEST_MS, shown: null };
    this.#pages.add(page);
    response.on('close', () => this.#pages.delete(page));
    // A proxy must not hold events back.
    response.set({ 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store', 'X-Accel-Buffering': 'no' });
    response.flushHeaders();
    this.#tell(page, new Map());
  }

  #tell(page: OpenPage, added: ReadonlyMap<RuntimeHistory, Added>): void {
    const { response, runtime, until, shown } = page;
    if (response.writableLength > MOST_UNREAD) {
      response.destroy();
      return;
    }
    const [first] = this.#watched.values();
    const watched = runtime === '' ? first : this.#watched.get(runtime);
    const { history = null } = watched ?? {};
    const isWhole = history !== shown;
    page.shown = history;
    const { points, marks } = (isWhole ? history : history && added.get(history)) ?? { points: [], marks: [] };
    const event: DashboardEvent = {
      runtimes: [...this.#watched.values()].map(({ service: { id, name } }) => ({ id, name })),
      runtime: watched?.service.id ?? null,
      ...{ isWhole, points, marks, stages: history?.stages ?? [] },
      now: watched ? this.#present(watched) : null,
    };
    response.write(`data: ${JSON.stringify(event)}\n\n`);
    if (this.#clock.now() >= until) response.end();
  }

  #present({ service, history, look }: Watched): Present {
    const view = viewBetween([history.earliest ?? look], [look], aroundOf(this.#pipeline, service.id));
    const { backlog, capacity, state, pid, rssBytes, stages } = view.runtimes[0] as View['runtimes'][number];
    return {
      ...{ backlog, capacity, state, pid, rssBytes },
      findings: [view.verdict, ...view.verdict.others].map(({ kind, text }) => ({ kind, text })),
      stages: stages.map(({ id, health, whole, workers }) => ({ id, health, whole, workers })),
      gates: this.#gatesOf(service.id).map(({ id, name, open, why, budget, quota, inFlight, waiting }) => ({
        ...{ id, name, open, why, budget, quota, inFlight, waiting },
      })),
    };
  }

  #gatesOf(runtime: string): GateSnapshot[] {
    const own = this.#pipeline.gates.measured.filter((gate) => gate.runtime === runtime);
    return own.map(({ snapshot }) => snapshot);
  }
}

/** The tables that have been read, by language. Each is made of many files, and the route needs no permission. */
const tables: Map<string, Readonly<Record<string, string>>> = new Map();

/** @param file the language, with `.json` behind it */
function sendSaid(file: string, response: Response): void {
  const [, language = ''] = /^([a-z]{2}-[A-Z]{2})\.json$/.exec(file) ?? [];
  try {
    const table = tables.get(language) ?? saidIn(language);
    tables.set(language, table);
    response.json(table);
  } catch {
    response.sendStatus(404);
  }
}

/**
 * Returns the sentences of a language by the English ones: the table that the editor has, and the labels of the dialogs,
 * which the editor knows besides, because a fault of a setting begins with its label.
 * @throws Error for a language without a table
 */
function saidIn(language: string): Readonly<Record<string, string>> {
  const { said, texts } = FOLDERS;
  const read = (path: string): unknown => JSON.parse(readFileSync(path, 'utf8'));
  const catalogs = readdirSync(join(texts, ENGLISH)).filter((file) => file.endsWith('.json'));
  const labels = catalogs.flatMap((file) => {
    const [english = {}, translated = {}] = [ENGLISH, language].map(
      (one) => (read(join(texts, one, file)) as LabelCatalog)[basename(file, '.json')]?.label,
    );
    return Object.entries(english).map(([name, text]) => [text, translated[name] ?? text] as const);
  });
  return { ...Object.fromEntries(labels), ...(read(join(said, `${language}.json`)) as Record<string, string>) };
}
