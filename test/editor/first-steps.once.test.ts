/** Runs the tests of what a newcomer meets in one process: see session.ts. */
import './first-steps/help.test.ts';
import './first-steps/examples.test.ts';
