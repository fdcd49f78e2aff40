/** Runs the tests of forms in one process, because starting Node-RED and loading the editor takes longest: see session.ts. */
import './forms/stage-fields.test.ts';
import './forms/defaults.test.ts';
import './forms/versions.test.ts';
