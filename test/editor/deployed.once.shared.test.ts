/** Runs the tests of deployed nodes in one process: see session.ts. */
import './deployed/broken-stages.test.ts';
import './deployed/restart.test.ts';
import './deployed/cpu-picker.test.ts';
import './deployed/gate.test.ts';
import './deployed/sidebar-picture.test.ts';
import './deployed/dashboard-page.test.ts';
import './deployed/chinese.test.ts';
