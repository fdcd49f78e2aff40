/** Runs the mistakes of newcomers in one process: see session.ts. */
import './mistakes/answers.test.ts';
import './mistakes/requests.test.ts';
import './mistakes/runs.test.ts';
import './mistakes/settings.test.ts';
import './mistakes/starts.test.ts';
