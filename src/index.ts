/**
 * The public names of the package, for modelets: types and errors, and a function that draws results into a picture. A
 * modelet can do without them.
 */
export { ERROR_CODES, type ErrorCode, HTTP_STATUS, ModeletError } from './core/errors.ts';
export { type AnnotateOptions, annotate } from './runtime/worker/modelet/annotate.ts';
export {
  type HistogramOptions,
  type MetricLabels,
  Modelet,
  type ModeletContext,
  type ModeletCounter,
  type ModeletGauge,
  type ModeletHistogram,
  type ModeletMetrics,
  type Sequence,
  StepModelet,
} from './runtime/worker/modelet/modelet.ts';
