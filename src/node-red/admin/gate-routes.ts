/** What the dialog of a gate asks: why it is open or closed, and whether its source can be read. */
import type { RequestHandler } from 'express';
import type { NodeAPI } from 'node-red';
import { compileGate, type GateConfig } from '../../config/compile-gate.ts';
import { asError, ModeletError } from '../../core/errors.ts';
import type { Credentials as SourceCredentials } from '../../gate/sources/http-endpoint.ts';
import { makeSource } from '../gate/gate-sources.ts';
import { GATE_ORDERS } from '../gate/gates.ts';
import type { Pipeline } from '../pipeline.ts';
import { gateView } from './gate-view.ts';

/** What Node-RED shows an editor of a secret that it keeps. */
const KEPT = '__PWRD__';
const SECRETS = ['token', 'username', 'password'] as const;

/** The settings of the dialog, saved or not, with the id of its node. */
type Form = Readonly<Record<string, unknown>> & { readonly credentials?: Readonly<Record<string, unknown>> };

export function serveGates(RED: NodeAPI, pipeline: Pipeline, mayRead: RequestHandler, mayWrite: RequestHandler): void {
  RED.httpAdmin.get('/modelets/gates/:id', mayRead, (request, response) => {
    const id = String(request.params['id']);
    const view = gateView(pipeline, id);
    // Of one that cannot be used, or is about to start, there is nothing to tell; asking about it is no mistake.
    if (view) response.json(view);
    else if (pipeline.live.get(id)) response.json({ id, invalid: pipeline.deployment.invalid.get(id) });
    else response.status(404).end();
  });

  for (const order of GATE_ORDERS) {
    RED.httpAdmin.post(`/modelets/gates/:id/${order}`, mayWrite, (request, response) => {
      const id = String(request.params['id']);
      const error = pipeline.gates.order(id, order);
      if (error === null) pipeline.live.get(id)?.node.log(`asked from outside its flow: ${order}`);
      response.status(error === null ? 204 : 404).end();
    });
  }

  /** Dead letters get all their attempts again: those of `ids`, else all. */
  RED.httpAdmin.post('/modelets/gates/:id/redrive', mayWrite, (request, response) => {
    const room = pipeline.gates.rooms.place(String(request.params['id']))?.room;
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
    readOnce(pipeline, (request.body ?? {}) as Form).then(
      (reading) => response.json(reading),
      (thrown: unknown) => response.json({ ok: false, reason: asError(thrown).message }),
    );
  });
}

/** Reads the source of settings that need not be deployed. @throws ModeletError `config_invalid`. */
async function readOnce(pipeline: Pipeline, form: Form): Promise<object> {
  const config = compileGate({ ...form });
  const id = typeof form['id'] === 'string' ? form['id'] : '';
  const { gates, deployment } = pipeline;
  const place = { runtime: config.runtime, stage: config.stage };
  const around = gates.sourceHost(id, () => deployment.gates.get(id) ?? place);
  const source = makeSource(around, config, credentialsOf(pipeline, id, config, form));
  try {
    return await source.read(new AbortController().signal);
  } finally {
    await source.close();
  }
}

/**
 * Those of the form; of a secret that the form only says is kept, the kept one. That one goes nowhere but where it goes
 * already: who may test a source may not read its secrets by having them sent to himself, or to another place on the same
 * server that shows what it gets.
 */
function credentialsOf({ live }: Pipeline, id: string, config: GateConfig, form: Form): SourceCredentials {
  const given = form.credentials ?? {};
  const found = live.get(id);
  const kept = (found?.node.credentials ?? {}) as Readonly<Record<string, unknown>>;
  const deployed = found?.kind === 'gate' && !(found.config instanceof ModeletError) ? found.config : null;
  const known = deployed !== null && addressOf(deployed) === addressOf(config);
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

/** Where secrets are sent to, and over what: all of the URL but what no server sees of it. */
function addressOf({ source }: GateConfig): string {
  if (!('url' in source)) return '';
  const url = new URL(source.url);
  url.hash = '';
  return JSON.stringify([source.kind, url.href, source.tls]);
}
