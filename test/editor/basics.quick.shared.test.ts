/**
 * Runs the quick tests in one process: a test of each dialog, of the sidebar, and of the first steps. See session.ts.
 * Shows: dialog modelet-runtime, dialog modelet-broker, dialog modelet-keys, dialog modelet-batcher,
 * dialog modelet-stage, dialog modelet-gate, dialog modelet-collector, dialog modelet-join, dialog modelet-stream,
 * dialog modelet-feed, dialog modelet-metrics, dialog modelet-view, dialog sidebar.
 */
import './basics/typed-values.test.ts';
import './basics/typed-gate.test.ts';
import './basics/stage-trial.test.ts';
import './basics/sidebar.test.ts';
import './basics/tutorial.test.ts';
