/** The ways from a route to the answers of its HTTP client: for its result, and for its errors. Pure. */
import type { AnswerSpec, EndpointSpec } from '../../core/endpoints.ts';
import { gathersOf } from '../../core/routes/route.ts';
import type { BatcherNode, CollectorNode, Graph, GraphNode, JoinNode, StageNode, StreamNode } from '../graph.ts';
import { describe } from '../names.ts';
import type { CompiledRoute } from '../routes.ts';
import { findHandler, targetsOf } from '../walk.ts';
import { type PartsExit, streamingResponse, writesParts } from './http-ways.ts';

/** The way from the end of a route to its HTTP response. */
export interface Exit {
  readonly collector: CollectorNode | null;
  readonly response: PartsExit;
  readonly copies: readonly string[];
  readonly parts: EndpointSpec['parts'];
}

/** Returns the way, or a reason if no HTTP response can be reached so. @param last the node that sends the results of a route */
export function exitOf(graph: Graph, last: StageNode | JoinNode): Exit | string {
  const behindLast = onwards(graph, last, 0);
  if (typeof behindLast === 'string') return behindLast;
  const { next, copies } = behindLast;
  if (next.kind === 'join') return `the branches behind ${named(last)} are gathered in Node-RED`;
  if (next.kind === 'http response') return { collector: null, response: next, copies, parts: null };
  if (next.kind === 'stream') return streamed(last, next, null, copies, []);
  if (next.kind !== 'collector') return `${describe(next)} stands behind ${named(last)}`;
  const against = againstCollector(next);
  if (against !== null) return against;
  const behindCollector = onwards(graph, next, 0);
  if (typeof behindCollector === 'string') return behindCollector;
  const { next: response, copies: later } = behindCollector;
  if (response.kind === 'stream') return streamed(last, response, next, [...copies, ...later], later);
  if (response.kind !== 'http response') return `${describe(response)} stands behind the result collector`;
  // Gathered results have no parts.
  const inParts = next.inParts && last.kind === 'stage';
  if (inParts && !streamingResponse(graph, last.id))
    return `results in parts need a body, and an answer with status ${response.statusCode} has none`;
  return {
    ...{ collector: next, response, copies: [...copies, ...later] },
    parts: inParts ? { copies: later, stream: null } : null,
  };
}

function streamed(
  last: StageNode | JoinNode,
  response: StreamNode,
  collector: CollectorNode | null,
  copies: readonly string[],
  later: readonly string[],
): Exit | string {
  const { invalid, stream } = response;
  if (last.kind === 'join') return `${describe(response)} stands behind ${named(last)}`;
  if (invalid !== null) return `the stream response cannot be used: ${invalid}`;
  return { collector, response, copies, parts: { copies: later, stream } };
}

function againstCollector({ invalid, watched, order }: CollectorNode): string | null {
  if (invalid !== null) return `the result collector cannot be used: ${invalid}`;
  if (watched) return 'a Complete node watches the result collector';
  return order === 'arrival' ? 'the result collector keeps the order of arrival' : null;
}

/** Returns the only node behind an output that is no debug node, and the debug nodes; else a reason. */
function onwards(
  graph: Graph,
  node: StageNode | JoinNode | CollectorNode,
  output: number,
): { readonly next: GraphNode; readonly copies: readonly string[] } | string {
  const targets = targetsOf(graph, node, output);
  const watched = targets.find((target) => target.watched && target.kind !== 'collector');
  if (watched) return `a Complete node watches ${describe(watched)} behind ${named(node)}`;
  const copies = targets.filter(isDebug).map(({ id }) => id);
  const [next, ...others] = targets.filter((target) => !isDebug(target));
  if (!next) return `no HTTP response node is wired behind ${named(node)}`;
  if (others.length > 0) return `the output of ${named(node)} goes to ${[next, ...others].map(describe).join(' and ')}`;
  return { next, copies };
}

/** The answer with an error. `answer`: null if only the client itself gets errors. */
export type ErrorAnswer = Pick<EndpointSpec, 'errorPayload'> & { readonly answer: AnswerSpec | null };

const TO_CLIENT: ErrorAnswer = { answer: null, errorPayload: 'body' };

/** Returns the answer with the errors of a route: the same for all its nodes, since the endpoint has only one. Else a reason. */
export function failureOf(
  graph: Graph,
  { leg, stages }: CompiledRoute,
  collector: CollectorNode | null,
): ErrorAnswer | string {
  const gathers = gathersOf(leg);
  const nodes = [...stages, ...gathers]
    .flatMap((id) => graph.get(id) ?? [])
    .filter((node) => node.kind === 'stage' || node.kind === 'join');
  const failures: ErrorAnswer[] = [];
  for (const node of nodes) {
    const failure = failureAt(graph, node, gathers, collector);
    if (typeof failure === 'string') return failure;
    if (failure) failures.push(failure);
  }
  const [first = TO_CLIENT, ...others] = failures;
  if (others.some((other) => JSON.stringify(other) !== JSON.stringify(first)))
    return 'the errors of its nodes are answered in different ways';
  const other = nodes.find((node) => node.kind === 'stage' && node.input !== 'payload');
  if (first.errorPayload === 'keep' && other?.kind === 'stage')
    return `the result collector keeps payloads of failed requests, and ${named(other)} reads msg.${other.input}`;
  return first;
}

/** Returns the answer with the errors of one node, or a reason; null if they are errors of the node that gathers its branch. */
function failureAt(
  graph: Graph,
  node: StageNode | JoinNode,
  gathers: readonly string[],
  collector: CollectorNode | null,
): ErrorAnswer | string | null {
  const handler = findHandler(graph, node.id);
  switch (handler.kind) {
    case 'join':
      return gathers.includes(handler.id) ? null : `the errors of ${named(node)} are gathered in Node-RED`;
    case 'catch':
      return node.caught ? `a Catch node handles the errors of ${named(node)}` : TO_CLIENT;
    case 'output':
      return failureBehind(graph, node);
    case 'collector':
      return handler.id === collector?.id
        ? failureBehind(graph, collector)
        : `another result collector handles the errors of ${named(node)}`;
  }
}

/** Returns the answer behind the catch output of a collector, or of a node that gathers branches; else a reason. */
function failureBehind(graph: Graph, node: StageNode | JoinNode | CollectorNode): ErrorAnswer | string {
  const behind = onwards(graph, node, 1);
  if (typeof behind === 'string') return `errors: ${behind}`;
  const { next, copies } = behind;
  if (!writesParts(next)) return `${describe(next)} gets the errors`;
  if (copies.length > 0) return 'a debug node gets the errors';
  // A stream response writes what the error says, whatever the payload is.
  const keeps = node.kind === 'collector' && next.kind !== 'stream';
  return { answer: answerOf(next), errorPayload: keeps ? node.errorPayload : 'body' };
}

export function answerOf(response: PartsExit): AnswerSpec {
  if (response.kind === 'stream') return { statusCode: null, headers: {} };
  const { statusCode, headers } = response;
  return { statusCode, headers };
}

export function isDebug({ type }: GraphNode): boolean {
  return type === 'debug';
}

/** Names a node in a reason. */
export function named(node: StageNode | BatcherNode | CollectorNode | JoinNode | { readonly kind: 'http in' }): string {
  switch (node.kind) {
    case 'stage':
      return `stage ${node.name}`;
    case 'batcher':
      return 'the batcher';
    case 'collector':
      return 'the result collector';
    case 'join':
      return 'the node that gathers branches';
    case 'http in':
      return 'the HTTP-in node';
  }
}
