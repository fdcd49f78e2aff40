/** The things that can be wrong with pipelines, each as a sentence with the buttons that help. Pure. */
import { ago, duration } from '../../core/figures.ts';
import { causeOf } from '../meters/failed-requests.ts';
import type { LoopSnapshot } from '../meters/loop.ts';
import type { GateSnapshot } from './gate-snapshot.ts';
import type { ItemTimes } from './interval.ts';
import { type LongRun, lingering, type OldRun, type StageHealth } from './words.ts';

export interface JudgedStage {
  readonly id: string;
  readonly name: string;
  readonly health: StageHealth;
  /** The state as the stage's badge says it. */
  readonly words: string;
  /** The same with the whole of what the badge cuts. */
  readonly whole: string;
  /** Number of batches that its workers run although no caller waits for them any more. */
  readonly overdue: number;
  /** The call that has run for far too long; null if none has. */
  readonly longRun: LongRun | null;
  /** How long the old workers have run the batches that they have left, in ms; those without callers are overdue. */
  readonly retired: readonly OldRun[];
  /** The last death of a worker, if no user has read of it; null: none. */
  readonly death: UnreadDeath | null;
  /** Why new code does not start while the old code answers; null if there is no such problem. */
  readonly successorError: string | null;
  /** Mean times of the items that ran since the earlier look; null if none did. */
  readonly times: ItemTimes | null;
  /** What the policy `adaptive` does and why; null under another one. */
  readonly batchChoice: string | null;
}

export interface UnreadDeath {
  readonly worker: number;
  readonly agoMs: number;
  readonly error: string;
}

/** Requests that failed, and of which no user has read. */
export interface UnreadFailure {
  readonly stage: string | null;
  readonly code: string;
  readonly message: string;
  readonly count: number;
}

/** An HTTP-in node that leads to pipelines, as far as its clients get answers. */
export interface JudgedEndpoint {
  readonly id: string;
  readonly method: string;
  readonly path: string;
  /** Whether no result can reach an HTTP response node, as far as the flow tells. */
  readonly isDeadEnd: boolean;
  /** Whether an HTTP-in node before it has the same method and URL, and gets its requests. */
  readonly isSecond: boolean;
}

/** A node that cannot be used. */
export interface UnusableNode {
  readonly id: string;
  readonly name: string;
  readonly reason: string;
  /** Whether it is a stage whose runtime is missing. */
  readonly lacksRuntime: boolean;
}

export interface Judged {
  readonly stages: readonly JudgedStage[];
  readonly unusable: readonly UnusableNode[];
  /** Why engines do not listen at their address. */
  readonly notListening: readonly string[];
  /** Addresses that engines have yet to open. */
  readonly opening: readonly string[];
  readonly endpoints: readonly JudgedEndpoint[];
  readonly gates: readonly Pick<
    GateSnapshot,
    'id' | 'name' | 'open' | 'control' | 'why' | 'waiting' | 'inFlight' | 'source' | 'store'
  >[];
  /** The items held back because payloads fill the memory of an engine, in words; null: no items. */
  readonly memory: string | null;
  readonly failures: readonly UnreadFailure[];
  /** Failures that a user has read, and that still are the last answer of an endpoint. */
  readonly lasting: readonly UnreadFailure[];
  readonly requestsPerSecond: number;
  /** Busy time of Node-RED's event loop; null if it is not measured. */
  readonly loop: LoopSnapshot | null;
}

/**
 * `good`: all is well. `note`: clients sent what is refused. `slow`: requests wait, or waited for too long. `startup`: not all
 * serves yet. `error`: something does not work.
 */
export type VerdictKind = 'good' | 'note' | 'slow' | 'startup' | 'error';

/**
 * A button of a finding. `createRuntime`: one runtime for all stages that have none. `restart`: new workers. `limit`: opens
 * the dialog at the limit of a run. `seen`: a user has read of all failures and deaths.
 */
export type FindingAction =
  | { readonly kind: 'createRuntime' | 'seen' }
  | { readonly kind: 'restart' | 'limit'; readonly node: string };

/** A sentence about the pipelines. */
export interface Finding {
  readonly kind: VerdictKind;
  readonly text: string;
  /** Id of the node to look at, or null. */
  readonly node: string | null;
  readonly actions: readonly FindingAction[];
}

type Rule = (judged: Judged) => readonly Finding[];

/** Most sentences about failures and deaths. */
const MOST_NEWS = 6;
const MOST_NAMES = 5;

const withoutRuntime: Rule = ({ unusable }) => {
  const lacking = unusable.filter(({ lacksRuntime }) => lacksRuntime);
  const [first] = lacking;
  if (!first) return [];
  const text =
    lacking.length === 1
      ? `${first.name} does not run: it has no runtime.`
      : `${lacking.length} stages do not run, because they have no runtime: ${names(lacking)}.`;
  return [error(text, first.id, [{ kind: 'createRuntime' }])];
};

const otherwiseUnusable: Rule = ({ unusable }) => {
  const [first, ...others] = unusable.filter(({ lacksRuntime }) => !lacksRuntime);
  if (!first) return [];
  const more = others.length > 0 ? ` ${others.length} more cannot be used.` : '';
  return [error(`${first.name} cannot be used: ${first.reason}.${more}`, first.id)];
};

const brokenStage: Rule = ({ stages }) => {
  const [first, ...others] = stages.filter(({ health }) => health === 'error');
  if (!first) return [];
  const more = others.length > 0 ? ` ${others.length} more cannot serve.` : '';
  return [error(`${first.name}: ${first.whole}.${more}`, first.id)];
};

const notListening: Rule = ({ notListening: reasons }) => reasons.map((reason) => error(`${reason}.`));

const deadEnds: Rule = ({ endpoints }) =>
  endpoints.filter(({ isDeadEnd }) => isDeadEnd).map((one) => error(noAnswer(`${one.method} ${one.path}`), one.id));

const secondEndpoints: Rule = ({ endpoints }) =>
  endpoints.filter(({ isSecond }) => isSecond).map((one) => error(addressTwice(`${one.method} ${one.path}`), one.id));

const failedSuccessor: Rule = ({ stages }) =>
  stages.flatMap(({ id, name, successorError }) => {
    if (successorError === null) return [];
    return [error(`${name}: the new code does not start, so the old code answers: ${successorError}.`, id)];
  });

const brokenGate: Rule = ({ gates }) => {
  const broken = gates.find(({ open, control, source }) => !open && control === 'auto' && source.error !== null);
  return broken ? [error(`Gate ${broken.name} is ${clause(broken.why)}.`, broken.id)] : [];
};

const brokenStore: Rule = ({ gates }) =>
  gates.flatMap(({ id, name, store }) =>
    store === null || store.error === null ? [] : [error(`Gate ${name} cannot use its store: ${store.error}.`, id)],
  );

/** Closed although no request runs behind it, so no result will open it. Another sentence tells of requests that wait. */
const closedGate: Rule = ({ gates }) =>
  gates
    .filter(
      ({ open, control, source, waiting }) => !open && waiting === 0 && (control !== 'auto' || source.error === null),
    )
    .filter(({ control, inFlight }) => control === 'close' || inFlight === 0)
    .map(({ id, name, why }) => finding('slow', `Gate ${name} is ${clause(why)}.`, id));

const starting: Rule = ({ stages, opening }) => {
  const addresses = opening.map((address) => finding('startup', address));
  const starts = stages.find(({ health }) => health === 'startup');
  if (!starts) return addresses;
  return [finding('startup', `${starts.name} is starting. Requests to it wait.`, starts.id), ...addresses];
};

const longRuns: Rule = ({ stages }) =>
  stages.flatMap(({ id, name, longRun, overdue }) => {
    if (!longRun && overdue === 0) return [];
    const runs = longRun ? `has run one call for ${duration(longRun.ms)}` : overdueWords(overdue);
    const alone = longRun && overdue > 0 ? ', and no caller waits for it any more' : '';
    const usual = longRun?.usualMs ?? null;
    const longer = alone === '' && usual !== null ? `, where ${duration(usual)} is usual` : '';
    const text = `${name} ${runs}${alone}${longer}: restart it, or set a run timeout.`;
    const actions = (['restart', 'limit'] as const).map((kind) => ({ kind, node: id }));
    return [finding('slow', text, id, actions)];
  });

const oldWorkers: Rule = ({ stages }) =>
  stages.flatMap(({ id, name, retired }) => {
    const first = lingering(retired);
    if (!first) return [];
    const end = first.overdue > 0 ? ', and no caller waits for it. The stage kills it soon.' : ', and then ends.';
    return [finding('slow', `${name}: an old worker has run one call for ${duration(first.runsMs)}${end}`, id)];
  });

/** @returns what a stage does that has these batches */
export function overdueWords(count: number): string {
  return `runs ${count === 1 ? 'a batch' : `${count} batches`} that no caller waits for any more`;
}

const full: Rule = ({ memory }) => (memory === null ? [] : [finding('slow', `${memory}.`)]);

const NEWS: readonly VerdictKind[] = ['error', 'slow', 'note'];

/** Whether a failure is one of the pipeline, and not of its clients or of too much load. */
export function isFault({ code }: Pick<UnreadFailure, 'code'>): boolean {
  return causeOf(code) === 'pipeline';
}

const KINDS: Readonly<Record<ReturnType<typeof causeOf>, VerdictKind>> = {
  client: 'note',
  load: 'slow',
  pipeline: 'error',
};

/** The failures and deaths that no user has read of, the gravest first. The first has the button for all. */
const news: Rule = ({ stages, failures }) => {
  const died = stages.flatMap(({ id, name, death }) => {
    if (death === null) return [];
    return [finding('slow', `${name}: worker ${death.worker} died ${ago(death.agoMs)}: ${death.error}`, id)];
  });
  const failed = failures.map((failure) => {
    const { code, message, count } = failure;
    return atStage(KINDS[causeOf(code)], failure, `${count} x ${code}: ${message}`, stages);
  });
  const all = [...died, ...failed].toSorted((a, b) => NEWS.indexOf(a.kind) - NEWS.indexOf(b.kind));
  const shown = all.slice(0, MOST_NEWS);
  const left = all.length - shown.length;
  const more = left > 0 ? [finding('note', `Failures of other kinds: ${left}.`)] : [];
  const [first, ...others] = [...shown, ...more];
  return first ? [{ ...first, actions: [{ kind: 'seen' }] }, ...others] : [];
};

/** A failure that a user has read is no news, but only an answer shows that it is over. */
const lastAnswers: Rule = ({ stages, lasting }) =>
  lasting.map((failure) => {
    const text = `the last request ended with ${failure.code}, and no request was answered since: ${failure.message}`;
    return atStage('note', failure, text, stages);
  });

function atStage(kind: VerdictKind, { stage }: UnreadFailure, text: string, stages: Judged['stages']): Finding {
  if (stage === null) return finding(kind, text);
  return finding(kind, `${stage}: ${text}`, stages.find(({ name }) => name === stage)?.id);
}

/** The rules, the gravest first. */
const RULES: readonly Rule[] = [
  withoutRuntime,
  otherwiseUnusable,
  brokenStage,
  notListening,
  deadEnds,
  secondEndpoints,
  failedSuccessor,
  brokenGate,
  brokenStore,
  starting,
  longRuns,
  oldWorkers,
  full,
  closedGate,
  news,
  lastAnswers,
];

/** @returns all that is wrong, the gravest first */
export function findingsIn(judged: Judged): Finding[] {
  return RULES.flatMap((rule) => rule(judged));
}

export function noAnswer(endpoint: string): string {
  return `${endpoint} gets no answer: no HTTP response node follows. Wire one behind the last stage.`;
}

export function addressTwice(endpoint: string): string {
  return `${endpoint} is the address of two HTTP-in nodes, and one of them gets no requests.`;
}

export function finding(
  kind: VerdictKind,
  text: string,
  node: string | null = null,
  actions: readonly FindingAction[] = [],
): Finding {
  return { kind, text, node, actions };
}

/** The message that ends the sentence may have a full stop already. */
function error(text: string, node?: string, actions?: readonly FindingAction[]): Finding {
  return finding('error', text.replace(/\.\.$/, '.'), node, actions);
}

function names(nodes: readonly { readonly name: string }[]): string {
  const shown = nodes.slice(0, MOST_NAMES).map(({ name }) => name);
  const left = nodes.length - shown.length;
  return `${shown.join(', ')}${left > 0 ? ` and ${left} more` : ''}`;
}

/** @returns the first part of a sentence that may have several */
export function clause(why: string): string {
  return why.split(';', 1)[0] as string;
}
