/** Runs the tests of how dialogs are laid out, which differs between editors of Node-RED, in one process: see session.ts. */
import './forms/width.test.ts';
import './forms/dialogs.test.ts';
