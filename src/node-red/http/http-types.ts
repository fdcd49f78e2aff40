/** Requests and responses of the HTTP-in nodes, and handlers of Node-RED's own. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Request, Response } from 'express';
import type { NodeAPI } from 'node-red';
import { type HttpSettings, httpRoot } from '../../config/http/http-settings.ts';

export interface HttpRequest extends Request {
  /** Whether something has read the body; parsers then leave it alone. */
  _body?: boolean;
}

export type HttpResponse = Response;

/** Returns the path of a request, with the one below which HTTP-in nodes listen. */
export function fullPath(settings: HttpSettings, { path }: Pick<HttpRequest, 'path'>): string {
  return `${httpRoot(settings).replace(/\/$/, '')}${path}`;
}

/**
 * Loads a handler from the packages that Node-RED's HTTP-in nodes use, so that it is exactly theirs.
 * @throws Error if the package is not found
 */
export function coreHandler<Handler>(RED: NodeAPI, name: string, ...options: readonly unknown[]): Handler {
  const { coreNodesDir = '/' } = RED.settings as { readonly coreNodesDir?: string };
  const require = createRequire(join(coreNodesDir, 'package.json'));
  return (require(name) as (...options: readonly unknown[]) => Handler)(...options);
}
