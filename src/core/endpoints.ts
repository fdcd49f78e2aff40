/** Endpoints as plain data: an HTTP-in node, its route and its answer, and the listener that serves them. */

/** The answer that an HTTP response node would send. */
export interface AnswerSpec {
  /** null: 200 for a result, the error's own status for an error. */
  readonly statusCode: number | null;
  readonly headers: Readonly<Record<string, string>>;
}

/** An HTTP-in node, its route and the HTTP response at its end, compiled into one. A request never becomes a message. */
export interface EndpointSpec {
  /** Id of the HTTP-in node. */
  readonly id: string;
  readonly method: 'post' | 'put' | 'patch';
  /** The exact path, `httpNodeRoot` included. */
  readonly path: string;
  /** The endpoint as a model of the KServe v2 protocol: the path of the protocol, and a name; null: not a model. */
  readonly model: { readonly base: string; readonly name: string } | null;
  /** Id of the runtime. */
  readonly runtime: string;
  /** Entry of its route: the stage or batcher at which a message would enter, or the HTTP-in node of several. */
  readonly entry: string;
  /** Ids of the stages whose modelets tell what it takes and what it gives; null: no single one does. */
  readonly describedBy: { readonly first: string | null; readonly last: string | null };
  /** Media ranges that the first stage accepts; null: all that can be decoded. */
  readonly mediaTypes: readonly string[] | null;
  /** Most rows of a request, of which each is an item; 0: a request is one item. */
  readonly maxRows: number;
  /** Whether requests wait when the queue of the first stage is full. */
  readonly patient: boolean;
  readonly answer: AnswerSpec;
  /** Answer behind the collector's catch output; null: nothing handles errors, and the client gets them as they are. */
  readonly failure: AnswerSpec | null;
  /** Whether the payload of a failed request becomes the error's body or stays as it was. */
  readonly errorPayload: 'body' | 'keep';
  /** Debug nodes beside the answer. Each gets a copy of the result's message, without `req` and `res`. */
  readonly copies: readonly string[];
  /**
   * Whether a result in parts is answered part by part; null: as a whole. `copies`: the debug nodes that get a copy of
   * each part, too. `stream`: how the parts are written; null: as the client wants them.
   */
  readonly parts: { readonly copies: readonly string[]; readonly stream: StreamSpec | null } | null;
  /** Header whose value stays on one version of a stage, in lower case; null: none. */
  readonly sticky: string | null;
  /** Header that is the key of a request, in lower case; null: none. */
  readonly key: string | null;
  /** Header that has the cost of a request, in lower case; null: none. */
  readonly cost: string | null;
}

/** How a stream response node writes a result in parts. */
export interface StreamSpec {
  readonly format: 'sse' | 'openai' | 'jsonl' | 'raw' | 'websocket';
  /** Name of the event that each part is, for server-sent events; '': none. */
  readonly event: string;
  /** Longest silence before a comment or ping that keeps the connection open, in ms; 0: none. */
  readonly heartbeatMs: number;
}

/** The address of a listener: a TCP port, or the path of a Unix socket. */
export type ListenAddress =
  /** `host` null: all addresses. `port` 0: any free port. */
  { readonly host: string | null; readonly port: number } | { readonly path: string };

/** Key and certificates of a listener, as PEM. */
export interface TlsFiles {
  readonly key?: string;
  readonly cert?: string;
  readonly ca?: string;
  readonly passphrase?: string;
}

/** A client that may use the endpoints of a runtime, with its limits. */
export interface ClientKey {
  readonly name: string;
  /** SHA-256 of its key, in hexadecimal; '': no key fits. */
  readonly hash: string;
  /** Paths at and below which it may send requests; empty: all. */
  readonly paths: readonly string[];
  /** Most requests per second; 0: no limit. */
  readonly rate: number;
  /** Most requests at a time; 0: no limit. */
  readonly concurrent: number;
}

/** Stands for all requests without a known key. No client has this name. */
export const NO_CLIENT = 'none';

/** How Node-RED compares paths: the settings of its Express. */
export interface PathRules {
  readonly caseSensitive: boolean;
  /** Whether a slash at the end makes another path. */
  readonly strict: boolean;
}

/** The endpoints that the engine serves at its own address, besides health and metrics. */
export interface ListenerSpec {
  readonly address: ListenAddress;
  /** null: no TLS. */
  readonly tls: TlsFiles | null;
  /** Largest JSON body, in bytes, and how its setting is called. */
  readonly maxJson: { readonly bytes: number; readonly name: string };
  /** Origins of web pages that may call, `*` for all. Default: none. */
  readonly cors?: readonly string[];
  /** Default: those of Express, which takes any case and a slash at the end. */
  readonly paths?: PathRules;
  /** The clients that may use the endpoints; null: any client. */
  readonly keys: readonly ClientKey[] | null;
  readonly endpoints: readonly EndpointSpec[];
}

/** An endpoint of the listener, with the numbers of its route. */
export interface PlannedEndpoint {
  readonly spec: EndpointSpec;
  readonly routeRef: number;
  /** Names of the stages, in the order of the route. */
  readonly stageNames: readonly string[];
  /** Most patient requests that the engine takes at a time before they count as waiting. */
  readonly room: number;
}

/** The settings of a runtime for requests at its listener. */
export interface ListenerTerms {
  /** Name of the runtime. */
  readonly runtime: string;
  /** Most open requests. */
  readonly capacity: number;
  /** Longest time for an answer, in ms; 0: no limit. */
  readonly timeoutMs: number;
  /** Whether the log takes a record of each failed request, at level debug. */
  readonly logsEach: boolean;
}

export interface PlannedListener extends Omit<ListenerSpec, 'endpoints'> {
  readonly terms: ListenerTerms;
  readonly endpoints: readonly PlannedEndpoint[];
}

/**
 * `off`: there is no address. `opening`: the address is about to be taken. `listening`: `url` is the address that clients use. `failed`: the address
 * cannot be used; the engine goes on trying.
 */
export type ListenerState =
  | { readonly tag: 'off' | 'opening' }
  | { readonly tag: 'listening'; readonly url: string }
  | { readonly tag: 'failed'; readonly code: string; readonly message: string };
