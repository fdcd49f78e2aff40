/** Runs the tests that draw and watch pipelines in one process: see session.ts. */
import './pipelines/sidebar.test.ts';
import './pipelines/build-pipeline.test.ts';
import './pipelines/wiring.test.ts';
import './pipelines/convert.test.ts';
import './pipelines/new-pipeline.test.ts';
import './pipelines/gate-copies.test.ts';
import './pipelines/versions.test.ts';
import './pipelines/quick-start.test.ts';
import './pipelines/known-model.test.ts';
import './pipelines/example-pages.test.ts';
import './pipelines/picture-preview.test.ts';
import './pipelines/openapi-page.test.ts';
