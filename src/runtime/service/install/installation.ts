/**
 * Installs what the model of a stage needs, for the dialog of the stage. One installation runs at a time, in processes of its
 * own that are gone when it ends, and it has a time limit.
 */
import { systemClock, type Timer } from '../../../core/clock.ts';
import { asError } from '../../../core/errors.ts';
import { inheritedEnvironment } from '../../../process/node-options.ts';
import { killGroup, killTree, type LaunchedProcess, launch, probeLauncher } from '../../../process/parent/launch.ts';

/** Time limit of an installation, in ms. */
const LONGEST_MS = 15 * 60_000;
/** The end of the output that is kept, in characters. */
const MOST_OUTPUT = 4000;
/** Messages of npm and pip when they reach no registry. */
const OFFLINE =
  /\b(?:ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH)\b|NewConnectionError|ConnectTimeoutError|Temporary failure in name resolution/;

/** Messages of a Python that lacks a part of its standard library, which some systems have as a separate package. */
const WITHOUT_VENV = /No module named '?(?:ensurepip|venv)\b|ensurepip is not available/;

type InstallCode = 'offline' | 'timed_out' | 'no_venv' | 'failed';

/** The commands of an installation: programs with their arguments, which run in order without a shell. */
export interface InstallPlan {
  /** Names of the packages, for people. */
  readonly what: string;
  readonly commands: readonly (readonly string[])[];
  /** The folder that the commands run in; absent: that of this process. */
  readonly cwd?: string;
}

export type Installation =
  | { readonly state: 'none' }
  | { readonly state: 'running'; readonly what: string; readonly seconds: number; readonly output: string }
  | { readonly state: 'done'; readonly what: string }
  | { readonly state: 'failed'; readonly what: string; readonly code: InstallCode; readonly output: string };

type EndedInstallation = Exclude<Installation, { state: 'running' }>;

class InstallError extends Error {
  readonly code: InstallCode;

  constructor(code: InstallCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** The installations of this Node-RED. */
export class Installer {
  readonly #longestMs: number;
  #last: EndedInstallation = { state: 'none' };
  #running: InstallRun | null = null;

  constructor(longestMs: number = LONGEST_MS) {
    this.#longestMs = longestMs;
  }

  /** The installation that runs, else how the last one ended. */
  get installation(): Installation {
    return this.#running?.view ?? this.#last;
  }

  /** Starts an installation, and calls `ended` after it; returns whether it could, because only one runs at a time. */
  start(plan: InstallPlan, ended: (ended: Installation) => void = () => {}): boolean {
    if (this.#running) return false;
    void this.run(plan).then(ended);
    return true;
  }

  /** Runs an installation to its end. No other may run. */
  async run(plan: InstallPlan): Promise<EndedInstallation> {
    const running = new InstallRun(plan, this.#longestMs);
    this.#running = running;
    try {
      await running.run();
      this.#last = { state: 'done', what: plan.what };
    } catch (thrown) {
      this.#last = running.failed(thrown);
    } finally {
      this.#running = null;
    }
    return this.#last;
  }
}

/** One installation, from its first command to the end of its last. */
class InstallRun {
  readonly #plan: InstallPlan;
  readonly #startedAt = systemClock.now();
  readonly #timer: Timer;
  #output = '';
  #child: LaunchedProcess | null = null;
  #isLate = false;

  constructor(plan: InstallPlan, longestMs: number) {
    this.#plan = plan;
    this.#timer = systemClock.at(this.#startedAt + longestMs, () => {
      this.#isLate = true;
      this.#kill();
    });
  }

  get view(): Installation {
    const seconds = Math.round((systemClock.now() - this.#startedAt) / 1000);
    return { state: 'running', what: this.#plan.what, seconds, output: this.#output };
  }

  async run(): Promise<void> {
    // Without this, the process would outlive a Node-RED that ends meanwhile on a platform without setpriv.
    const kill = (): void => this.#kill();
    process.on('exit', kill);
    try {
      const { setpriv } = await probeLauncher([]);
      for (const command of this.#plan.commands) await this.#runOne(command, setpriv);
    } finally {
      process.off('exit', kill);
      this.#timer.cancel();
    }
  }

  failed(thrown: unknown): EndedInstallation {
    const error = asError(thrown);
    const code = this.#isLate ? 'timed_out' : error instanceof InstallError ? error.code : 'failed';
    return { state: 'failed', what: this.#plan.what, code, output: this.#output || error.message };
  }

  #runOne(command: readonly string[], setpriv: boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#isLate) throw new InstallError('timed_out', 'no time is left for the next command');
      const launcher = { setpriv, taskset: false };
      const child = launch({ command, cpus: null, launcher, env: inheritedEnvironment(), cwd: this.#plan.cwd });
      this.#child = child;
      const note = (chunk: Buffer): void => {
        this.#output = (this.#output + chunk.toString()).slice(-MOST_OUTPUT);
      };
      child.stdout?.on('data', note);
      child.stderr?.on('data', note);
      child.once('error', reject);
      child.once('exit', () => {
        this.#child = null;
        // Processes that it left behind may hold the output open.
        if (child.pid !== undefined) killGroup(child.pid);
      });
      child.once('close', (status) => {
        if (status === 0) resolve();
        else reject(new InstallError(codeOf(this.#output), `ended with ${status}`));
      });
    });
  }

  #kill(): void {
    if (this.#child?.pid !== undefined) killTree(this.#child.pid);
  }
}

/** Returns why an installer with this output has failed. */
function codeOf(output: string): InstallCode {
  if (WITHOUT_VENV.test(output)) return 'no_venv';
  return OFFLINE.test(output) ? 'offline' : 'failed';
}
