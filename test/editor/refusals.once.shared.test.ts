/** Runs the tests of values that dialogs refuse in one process: see session.ts. */
import './refusals/stage.test.ts';
import './refusals/gate.test.ts';
import './refusals/other-nodes.test.ts';
