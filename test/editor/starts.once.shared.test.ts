/** Runs the tests of dialogs that create files, install packages or have a new property in one process: see session.ts. */
import './forms/starts.test.ts';
import './forms/new-property.test.ts';
