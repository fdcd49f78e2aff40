// Measures which files a request passes, and writes their list into docs/architecture.md.
//   npm run path
import { build, runBuilt } from './run-built.mjs';
import { current, maintained } from './runtimes.mjs';

build();
runBuilt(current() ?? maintained(), 'test/docs/path/main.js', []);
