/** Runs the tests of the dialogs' forms in one process, so that they share Node-RED, the browser and a page: see session.ts. */
import './forms/typed-values.test.ts';
import './forms/defaults.test.ts';
import './forms/width.test.ts';
import './forms/button-names.test.ts';
