/** The public names of the package, for modelets: a modelet needs none of them, they give its types and its errors. */
export { ERROR_CODES, type ErrorCode, HTTP_STATUS, ModeletError } from './core/errors.ts';
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
