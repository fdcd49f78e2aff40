/** Runs the quick tests in one process: a test of each dialog, of the sidebar, and of the first steps. See session.ts. */
import './basics/typed-values.test.ts';
import './basics/typed-gate.test.ts';
import './basics/stage-trial.test.ts';
import './basics/sidebar.test.ts';
import './basics/tutorial.test.ts';
