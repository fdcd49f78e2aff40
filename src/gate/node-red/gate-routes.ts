/** Admin routes of gates: state, orders, redrive of dead letters, and a test of the source from the gate's dialog. */
import type { NodeAPI } from 'node-red';
import { compileGate, type GateConfig } from '../../config/compile-gate.ts';
import { inLabels } from '../../config/configure.ts';
import { asError, asModeletError, ModeletError } from '../../core/errors.ts';
import { NO_GATES } from '../../node-red/gate-port.ts';
import { nodeRedLog } from '../../node-red/log.ts';
import type { Pipeline } from '../../node-red/pipeline.ts';
import type { Credentials as SourceCredentials } from '../source.ts';
import { makeSource } from './gate-sources.ts';
import { GATE_ORDERS, Gates } from './gates.ts';

/** Placeholder that Node-RED sends to the editor instead of a saved secret. */
const KEPT = '__PWRD__';
const SECRETS = ['token', 'username', 'password'] as const;

/** The settings of the dialog, saved or not, with the id of its node. */
type GateForm = Readonly<Record<string, unknown>> & { readonly credentials?: Readonly<Record<string, unknown>> };

/** Connects the gates to the pipeline, when Node-RED loads the gate node. */
export function connectGates(RED: NodeAPI, pipeline: Pipeline): void {
  if (pipeline.gates !== NO_GATES) return;
  const gates = new Gates({
    context: pipeline.context,
    log: nodeRedLog(RED),
    service: (runtime) => pipeline.services.find(({ id }) => id === runtime),
    machine: () => pipeline.machine,
    onChange: () => pipeline.showBadges(),
  });
  pipeline.gates = gates;
  serveGates(RED, pipeline, gates);
}

function serveGates(RED: NodeAPI, pipeline: Pipeline, gates: Gates): void {
  const mayRead = RED.auth.needsPermission('modelets.read');
  const mayWrite = RED.auth.needsPermission('modelets.write');

  RED.httpAdmin.get('/modelets/gates/:id', mayRead, (request, response) => {
    const id = String(request.params['id']);
    const view = gates.view(id);
    // A gate that is unusable or about to start exists but has no state, so do not answer with 404.
    if (view) response.json(view);
    else if (pipeline.live.get(id))
      response.json({ id, invalid: pipeline.deployment.nodes.get(id)?.invalid ?? undefined });
    else response.status(404).end();
  });

  for (const order of GATE_ORDERS) {
    RED.httpAdmin.post(`/modelets/gates/:id/${order}`, mayWrite, (request, response) => {
      const id = String(request.params['id']);
      const error = gates.order(id, order);
      if (error === null) pipeline.live.get(id)?.node.log(`received the order ${order} over HTTP`);
      response.status(error === null ? 204 : 404).end();
    });
  }

  /** Puts dead letters back with all their attempts: those in `ids`, or all if `ids` is missing. */
  RED.httpAdmin.post('/modelets/gates/:id/redrive', mayWrite, (request, response) => {
    const room = gates.rooms.place(String(request.params['id']))?.room;
    const { ids } = (request.body ?? {}) as { readonly ids?: unknown };
    if (!room) {
      response.status(404).end();
      return;
    }
    room.redrive(Array.isArray(ids) ? ids.map(String) : null).then(
      (redriven) => response.json({ redriven }),
      (thrown: unknown) => response.status(503).json({ error: asError(thrown).message }),
    );
  });

  RED.httpAdmin.post('/modelets/gates/test', mayWrite, (request, response) => {
    readOnce(pipeline, gates, (request.body ?? {}) as GateForm).then(
      (reading) => response.json(reading),
      (thrown: unknown) => {
        const { message } = inLabels('modelet-gate', asModeletError(thrown, 'config_invalid'));
        response.json({ ok: false, reason: message });
      },
    );
  });
}

/** Reads the source of a form once. The form need not be deployed. @throws ModeletError `config_invalid`. */
async function readOnce(pipeline: Pipeline, gates: Gates, form: GateForm): Promise<object> {
  const config = compileGate({ ...form });
  const id = typeof form['id'] === 'string' ? form['id'] : '';
  const { runtime, stage } = config;
  const around = gates.sourceHost(id, { runtime, stage });
  const source = makeSource(around, config, credentialsOf(pipeline, id, config, form));
  try {
    return await source.read(new AbortController().signal);
  } finally {
    await source.close();
  }
}

/**
 * Returns the credentials of the form, with each placeholder replaced by the saved secret. A saved secret goes to the
 * deployed address only. Otherwise a user who may test a source could read its secrets by sending them to another
 * server, or to a page on the same server that displays them.
 */
function credentialsOf({ live }: Pipeline, id: string, config: GateConfig, form: GateForm): SourceCredentials {
  const given = form.credentials ?? {};
  const kept = (live.get(id)?.node.credentials ?? {}) as Readonly<Record<string, unknown>>;
  const deployed = live.settings('gate', id);
  const known = deployed !== undefined && addressOf(deployed) === addressOf(config);
  return Object.fromEntries(
    SECRETS.flatMap((name) => {
      const value = given[name];
      if (value !== KEPT) return typeof value === 'string' ? [[name, value]] : [];
      if (!known)
        throw new ModeletError(
          'config_invalid',
          `${name}: the saved one goes to the saved address only; deploy first, or type it again`,
        );
      return [[name, String(kept[name] ?? '')]];
    }),
  );
}

/** Returns the destination of secrets: kind, TLS configuration, and the URL without its hash, which no server sees. */
function addressOf({ source }: GateConfig): string {
  if (!('url' in source)) return '';
  const url = new URL(source.url);
  url.hash = '';
  return JSON.stringify([source.kind, url.href, source.tls]);
}
