/** Runs the tests of help and examples in one process: see session.ts. */
import './first-steps/help.test.ts';
import './first-steps/examples.test.ts';
