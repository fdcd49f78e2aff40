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
export { type Graph, type GraphNode, targetsOf } from './graph/graph.ts';
export { type ErrorHandler, findHandler } from './graph/handlers.ts';
export { nearest } from './graph/reach.ts';
export { type CompiledGraph, type CompiledRoute, compileRoutes } from './graph/routes.ts';
export { type AnswerForm, answerForm } from './http/accept.ts';
export { type AnswerBody, answerBody } from './http/answer.ts';
export { type BodyTerms, checkMediaType, decodeBody } from './http/body.ts';
export { jsonable } from './http/jsonable.ts';
export { kindOfHeader, mediaTypeOf } from './http/media-type.ts';
export { allowedCpus, visibleCpus } from './lifecycle/affinity.ts';
export { probeLauncher } from './lifecycle/launch.ts';
export type { SlowRequest } from './observe/breakdown.ts';
export { Exposition, type MeasuredGate } from './observe/collect.ts';
export { Failures } from './observe/failures.ts';
export type { GateDecision, GateSnapshot, GateView, StoreSnapshot } from './observe/gate-snapshot.ts';
export { type Missing, missingIn } from './observe/health.ts';
export { intervalBetween, type Look, type RuntimeInterval } from './observe/interval.ts';
export { LoopMonitor, type LoopSnapshot } from './observe/loop.ts';
export { isRefusal } from './observe/refusals.ts';
export type { RuntimeSnapshot, StageSnapshot } from './observe/snapshot.ts';
export { parseTraceparent } from './observe/traceparent.ts';
export { type TracedRequest, Tracing } from './observe/tracing.ts';
export { type Around, type View, viewBetween } from './observe/view.ts';
export { whyRouteEnds } from './observe/why.ts';
export { buildDocument, type OpenApiDocument } from './openapi/document.ts';
export type { Api, ApiAnswer, ApiEndpoint, ApiInput, ApiStage } from './openapi/endpoint.ts';
export { pageOf } from './openapi/page.ts';
export { QueueClient } from './queue/queue-client.ts';
export { whyNoSqlite } from './queue/sqlite.ts';
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
} from './queue/work-queue.ts';
export type { StageCheck } from './server/checks.ts';
export { inspectOnnx, type OnnxPorts } from './server/inspect-onnx.ts';
export type { Settlement } from './server/ledger.ts';
export type { Machine } from './server/machine.ts';
export type { PlannedStage } from './server/planner.ts';
export { Registry } from './server/registry.ts';
export type { Service } from './server/service.ts';
export { decodePayload, encodePayload } from './wire/codec.ts';
export { encodeMeta } from './wire/meta.ts';
export { Modelet, type ModeletContext } from './worker/modelet.ts';
export { findPython } from './worker/sources/python.ts';
