/** Renders an OpenAPI document as a page for people: one file, no scripts, no external resources. Pure. */
import { type Address, curlOf } from './curl.ts';
import type { OpenApiDocument, Operation, Unsaid } from './document.ts';
import type { JsonObject } from './endpoint.ts';

/** HTML that goes into a page without escaping. */
type Html = { readonly html: string };

/** Renders the page. `origin` is the server's origin as its clients know it, such as `http://host:1880`. */
export function pageOf(document: OpenApiDocument, origin: string): string {
  const { info, paths } = document;
  const base = origin + (document.servers[0]?.url ?? '/').replace(/\/$/, '');
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => operationOf(document, { method, path, base }, operation)),
  );
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${info.title}</title>
<style>${raw(PAGE_STYLE)}</style>
</head>
<body>
<header>
<h1>${info.title}</h1>
<p>Below <code>${base}/</code>, as <a href="openapi.json">OpenAPI 3.1</a>, version ${info.version}.</p>
</header>
<main>
${operations.length > 0 ? operations : raw('<p>No endpoint leads to a pipeline.</p>')}
${unsaidOf(document['x-modelet-unsaid'] ?? [])}
</main>
</body>
</html>
`.html;
}

function operationOf(document: OpenApiDocument, address: Address, operation: Operation): Html {
  const { method, path } = address;
  const { summary, description, requestBody, responses } = operation;
  const parameters = operation.parameters.map((parameter) => resolved(document, parameter));
  const all = Object.entries(responses).map(([status, response]) => [status, resolved(document, response)] as const);
  const isError = (response: JsonObject): boolean => contents(response).some(([, { schema }]) => isErrorBody(schema));
  return html`<section id="${operation.operationId}">
<h2><span class="method ${method}">${method.toUpperCase()}</span> <code>${path}</code></h2>
${summary ? html`<p class="summary">${summary}</p>` : ''}
${description ? html`<p class="text">${prose(description)}</p>` : ''}
${parametersOf(parameters)}
${requestBody ? bodyOf(document, 'Request body', requestBody) : ''}
${all.filter(([, response]) => !isError(response)).map(([status, response]) => bodyOf(document, `Response ${status}`, response))}
<h3>Try it</h3>
<pre>${curlOf(address, parameters, requestBody, (reference) => resolved(document, reference))}</pre>
<h3>Errors</h3>
<table>
${all.filter(([, response]) => isError(response)).map(([status, response]) => errorRow(status, response))}
</table>
</section>`;
}

function isErrorBody(schema: unknown): boolean {
  return (schema as JsonObject | undefined)?.['$ref'] === '#/components/schemas/Error';
}

function errorRow(status: string, response: JsonObject): Html {
  const lines = String(response['description'])
    .split('\n')
    .filter((line) => line.startsWith('- '))
    .map((line) => html`<div>${prose(line.slice(2))}</div>`);
  return html`<tr><th>${status}</th><td>${lines}</td></tr>`;
}

function parametersOf(parameters: readonly JsonObject[]): Html {
  const rows = parameters.map(({ name, in: place, required, description, schema }) => {
    const needed = required ? `${String(place)}, required` : String(place);
    const text = description === undefined ? JSON.stringify(schema ?? {}) : String(description);
    return html`<tr><th><code>${String(name)}</code></th><td>${needed}</td><td>${prose(text.slice(0, LONGEST_CELL))}</td></tr>`;
  });
  return html`<h3>Parameters</h3>
<table>
${rows}
</table>`;
}

const LONGEST_CELL = 500;

function bodyOf(document: OpenApiDocument, title: string, body: JsonObject): Html {
  const types = contents(body);
  const described = types.find(([, { schema }]) => schema !== undefined);
  const { schema, examples } = described?.[1] ?? {};
  return html`<h3>${title}</h3>
${body['description'] ? html`<p class="text">${prose(String(body['description']))}</p>` : ''}
${types.length > 0 ? html`<p>${types.map(([type]) => html`<code>${type}</code> `)}</p>` : ''}
${schema === undefined ? '' : schemaOf(document, schema)}
${Object.values((examples ?? {}) as Record<string, { value: unknown }>).map(({ value }) => fold('Example', value))}`;
}

interface MediaType {
  readonly schema?: unknown;
  readonly examples?: unknown;
}

function contents(body: JsonObject): [string, MediaType][] {
  return Object.entries((body['content'] ?? {}) as Record<string, MediaType>);
}

function schemaOf(document: OpenApiDocument, schema: unknown): Html {
  const isOpen = JSON.stringify(schema) === '{}' || schema === true;
  if (isOpen) return html`<p>Anything.</p>`;
  return fold('Schema', isReference(schema) ? resolved(document, schema) : schema);
}

function fold(title: string, value: unknown): Html {
  return html`<details${raw(JSON.stringify(value).length <= SHORT ? ' open' : '')}><summary>${title}</summary><pre>${pretty(value)}</pre></details>`;
}

/** Formats JSON: a value that fits on one line stays on one line. */
function pretty(value: unknown, indent = ''): string {
  const flat = JSON.stringify(value) ?? 'null';
  if (value === null || typeof value !== 'object' || indent.length + flat.length <= LINE) return flat;
  const deeper = `${indent}  `;
  if (Array.isArray(value) && value.every((part) => part === null || typeof part !== 'object')) return flat;
  const parts = Array.isArray(value)
    ? value.map((part) => pretty(part, deeper))
    : Object.entries(value).map(([key, part]) => `${JSON.stringify(key)}: ${pretty(part, deeper)}`);
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  return `${open}\n${parts.map((part) => deeper + part).join(',\n')}\n${indent}${close}`;
}

const LINE = 72;

/** Renders text; words between backticks become code. */
function prose(text: string): Html[] {
  return text.split('`').map((part, index, parts) => {
    const isCode = index % 2 === 1 && index < parts.length - 1;
    return isCode ? html`<code>${part}</code>` : html`${index % 2 === 1 ? '`' : ''}${part}`;
  });
}

/** Most characters of JSON that the page shows without a click. */
const SHORT = 2000;

function isReference(value: unknown): value is { readonly $ref: string } {
  return value !== null && typeof value === 'object' && typeof (value as JsonObject)['$ref'] === 'string';
}

/** Returns the target of a reference to a component; returns any other value unchanged. */
function resolved(document: OpenApiDocument, value: JsonObject): JsonObject {
  if (!isReference(value)) return value;
  const keys = value.$ref.split('/').slice(1);
  return keys.reduce<unknown>((part, key) => (part as JsonObject)[key], document) as JsonObject;
}

function unsaidOf(unsaid: readonly Unsaid[]): Html | string {
  if (unsaid.length === 0) return '';
  const rows = unsaid.map(
    ({ method, url, why }) =>
      html`<tr><th>${method.toUpperCase()}</th><td><code>${url}</code></td><td>${why}</td></tr>`,
  );
  return html`<section><h2>Also there</h2>
<table>
${rows}
</table>
</section>`;
}

function raw(text: string): Html {
  return { html: text };
}

/** Builds HTML from a template. Escapes every text put in; HTML, lists of it included, stays unchanged. */
function html(texts: TemplateStringsArray, ...values: readonly (Html | string | readonly Html[])[]): Html {
  return { html: texts.reduce((all, text, index) => `${all}${asHtml(values[index - 1])}${text}`) };
}

function asHtml(value: Html | string | readonly Html[] | undefined): string {
  if (typeof value === 'string') return value.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
  if (value === undefined) return '';
  return 'html' in value ? value.html : value.map((part) => part.html).join('');
}

/** How the page of an OpenAPI document looks: light and dark, on narrow screens too. */
const PAGE_STYLE: string = `
:root { color-scheme: light dark; --line: #8885; --soft: #8882; --accent: light-dark(#1a5fb4, #99c1f1); }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0; }
h2 { font-size: 1.15rem; margin: 0; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1rem 0 0.25rem; }
p { margin: 0.25rem 0; }
a { color: var(--accent); }
section { border: 1px solid var(--line); border-radius: 0.5rem; margin: 1rem 0; padding: 0.75rem 1rem; }
code, pre { font: 0.9rem/1.4 ui-monospace, monospace; }
pre { background: var(--soft); border-radius: 0.25rem; margin: 0.25rem 0; max-height: 30rem; overflow: auto; overflow-wrap: anywhere; padding: 0.5rem; white-space: pre-wrap; }
summary { cursor: pointer; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border-top: 1px solid var(--line); padding: 0.25rem 0.5rem 0.25rem 0; text-align: left; vertical-align: top; }
.method { border: 1px solid var(--accent); border-radius: 0.25rem; color: var(--accent); padding: 0 0.4rem; }
.summary { font-weight: 600; }
.text { white-space: pre-line; }
`;
