/** Paced split: splits a large input and keeps at most `window` messages unsettled. */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { compileFeed } from '../src/config/compile.ts';
import { configure } from '../src/config/configure.ts';
import { asModeletError, ModeletError } from '../src/core/errors.ts';
import { FeedRun } from '../src/node-red/feed/feed-run.ts';
import { FeedWindow } from '../src/node-red/feed/feeds.ts';
import { logFault } from '../src/node-red/log.ts';
import { pipelineOf } from '../src/node-red/pipeline.ts';
import { deliverToCatchNodes } from '../src/node-red/request/error-exit.ts';
import type { PipelineMessage } from '../src/node-red/request/messages.ts';
import { feedBadge, showInvalid } from '../src/node-red/status.ts';

const BADGE_INTERVAL_MS = 1000;

export default function register(RED: NodeAPI): void {
  const pipeline = pipelineOf(RED);
  RED.nodes.registerType('modelet-feed', function (this: Node, definition: NodeDef) {
    RED.nodes.createNode(this, definition);
    const config = configure('modelet-feed', () => compileFeed({ ...definition }));
    if (config instanceof ModeletError) {
      showInvalid(this, config);
      this.on('input', (msg, _send, _done) => {
        deliverToCatchNodes(RED, this, msg as PipelineMessage, config);
        pipeline.feeds.waiterFor(msg)?.();
      });
      return;
    }
    // The badge of the node that this one replaces may still be shown.
    this.status({});
    const badge = throttle(() => this.status(feedBadge(window.unsettled, config.window)));
    const window = new FeedWindow(config.window, badge.changed);
    const running = new Set<FeedRun>();
    const stop = (): void => {
      for (const run of running) run.stop();
      running.clear();
      window.reset();
    };
    this.on('input', (msg, _send, done) => {
      if ('reset' in msg) {
        stop();
        done();
        return;
      }
      // The input may be an item of an outer paced split, which then settles when all items of this input have.
      const outer = pipeline.feeds.waiterFor(msg);
      const run = new FeedRun(RED, this, window);
      running.add(run);
      const failed = (thrown: unknown): void => {
        const error = asModeletError(thrown, 'invalid_input');
        deliverToCatchNodes(RED, this, msg as PipelineMessage, error);
      };
      // `done` is called only for an input that was split: an error given to it would not tell which node caught it.
      const ended = run.run(msg, config.from, pipeline.feeds).then(() => done(), failed);
      void ended
        .catch((thrown) => logFault(RED, 'a paced split could not report its end', thrown))
        .finally(() => {
          running.delete(run);
          outer?.();
        });
    });
    this.on('close', () => {
      stop();
      badge.end();
    });
  });
}

/**
 * Calls `show` at most once per interval, and always after the last change. Not after `end`: the node that a deploy puts in
 * place of this one has the same badge.
 */
function throttle(show: () => void): { changed(): void; end(): void } {
  let next: NodeJS.Timeout | 'none' | 'ended' = 'none';
  return {
    changed: () => {
      if (next !== 'none') return;
      next = setTimeout(() => {
        next = 'none';
        show();
      }, BADGE_INTERVAL_MS).unref();
    },
    end: () => {
      if (typeof next === 'object') clearTimeout(next);
      next = 'ended';
    },
  };
}
