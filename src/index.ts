/** The public names of the package: what nodes and users may import. */
export {
  type BatcherConfig,
  type CollectorConfig,
  compileBatcher,
  compileCollector,
  compileFeed,
  compileMetrics,
  compileRuntime,
  type FeedConfig,
  type MetricsConfig,
  type RuntimeConfig,
} from './config/compile.ts';
export { compileGate, type GateConfig } from './config/compile-gate.ts';
export { compileStage, type StageConfig } from './config/compile-stage.ts';
export { liesIn, resolveFile } from './config/paths.ts';
export { NODE_SCHEMAS, type NodeSchema, type NodeType } from './config/schema.ts';
export { type Clock, type Deadline, deadlineAfter, httpDate, systemClock, type Timer, wallTime } from './core/clock.ts';
export { asError, ERROR_CODES, type ErrorCode, HTTP_STATUS, isErrorCode, ModeletError } from './core/errors.ts';
export { Fifo, type FifoNode } from './core/fifo.ts';
export type {
  Batching,
  LogLevel,
  LogRecord,
  Outcome,
  Payload,
  PayloadSchema,
  RequestNumber,
  StageTiming,
} from './core/model.ts';
export { Table } from './core/table.ts';
export { isSpaceAt, withoutTrailing } from './core/text.ts';
export { type AnswerForm, answerForm } from './endpoint/accept.ts';
export { type AnswerBody, answerBody } from './endpoint/answer.ts';
export { type BodyTerms, checkMediaType, decodeBody } from './endpoint/body.ts';
export { jsonable } from './endpoint/jsonable.ts';
export { kindOfHeader, mediaTypeOf } from './endpoint/media-type.ts';
export { type Graph, type GraphNode, targetsOf } from './flow/graph.ts';
export { type ErrorHandler, findHandler } from './flow/handlers.ts';
export { nearest } from './flow/reach.ts';
export { type CompiledGraph, type CompiledRoute, compileRoutes } from './flow/routes.ts';
export type { Admission } from './gate/admission.ts';
export { type Ask, type Asked, Gate, type GateOptions, type GateOrder, type Supply } from './gate/gate.ts';
export { refusedFull } from './gate/gate-errors.ts';
export { gateOfLease, type Lease } from './gate/leases.ts';
export { snapshotOf } from './gate/snapshot.ts';
export type { BudgetSource, EndedLease, LeaseEnd, Reading, Sample } from './gate/source.ts';
export { createSource, type SourceServices } from './gate/sources/create.ts';
export type { Credentials as SourceCredentials, TlsOptions } from './gate/sources/http-endpoint.ts';
export { loadRedis } from './gate/sources/redis-client.ts';
export type { StageLoad } from './gate/sources/saturation.ts';
export { Exposition, type MeasuredGate } from './observe/export/collect.ts';
export { parseTraceparent } from './observe/export/traceparent.ts';
export { type TracedRequest, Tracing } from './observe/export/tracing.ts';
export { Failures } from './observe/log/failures.ts';
export { isRefusal } from './observe/log/refusals.ts';
export { LoopMonitor, type LoopSnapshot } from './observe/meters/loop.ts';
export type { SlowRequest } from './observe/views/breakdown.ts';
export type { GateDecision, GateSnapshot, GateView, StoreSnapshot } from './observe/views/gate-snapshot.ts';
export { type Missing, missingIn } from './observe/views/health.ts';
export { intervalBetween, type Look, type RuntimeInterval } from './observe/views/interval.ts';
export type { RuntimeSnapshot, StageSnapshot } from './observe/views/snapshot.ts';
export { type Around, type View, viewBetween } from './observe/views/view.ts';
export { whyRouteEnds } from './observe/views/why.ts';
export { buildDocument, type OpenApiDocument } from './openapi/document.ts';
export type { Api, ApiAnswer, ApiEndpoint, ApiInput, ApiStage } from './openapi/endpoint.ts';
export { pageOf } from './openapi/page.ts';
export { allowedCpus, visibleCpus } from './process/affinity.ts';
export { probeLauncher } from './process/parent/launch.ts';
export { findPython } from './process/python.ts';
export type { StageCheck } from './server/checks.ts';
export { inspectOnnx, type OnnxPorts } from './server/inspect-onnx.ts';
export type { Settlement } from './server/ledger.ts';
export type { Machine } from './server/machine.ts';
export type { PlannedStage } from './server/planner.ts';
export { Registry } from './server/registry.ts';
export type { Service } from './server/service.ts';
export { QueueClient } from './store/client/queue-client.ts';
export { whyNoSqlite } from './store/process/sqlite.ts';
export {
  type Ack,
  type Cancelled,
  type Claim,
  type Enqueued,
  type ItemResult,
  isItemId,
  type NackOptions,
  type QueueItem,
  type QueueStats,
  type WorkQueue,
} from './store/work-queue.ts';
export { decodePayload, encodePayload } from './wire/codec/codec.ts';
export { encodeMeta } from './wire/frames/meta.ts';
export { Modelet, type ModeletContext } from './worker/modelet/modelet.ts';
