/**
 * The page of an OpenAPI document: Swagger UI, from the optional package `swagger-ui-dist`. The page loads nothing from
 * elsewhere. Without the package, a plain page names it and links to the document. Pure.
 */

export const VIEWER_PACKAGE = 'swagger-ui-dist';

/** Files of the viewer, by their addresses. Relative addresses start beside the page, whose name is `openapi`. */
export const VIEWER_FILES: Readonly<Record<string, string>> = {
  '/openapi/viewer.css': 'swagger-ui.css',
  '/openapi/viewer.js': 'swagger-ui-bundle.js',
};
/** Address of `VIEWER_SCRIPT`. */
export const VIEWER_START = '/openapi/start.js';

/** Starts the viewer. The policy allows no script within the page. Without `validatorUrl`, it would ask a public server. */
export const VIEWER_SCRIPT = `SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#viewer',
  validatorUrl: null,
  deepLinking: true,
  tryItOutEnabled: true,
});
`;

/**
 * Names and schemas may contain anything: no script in them can run, and the page can send requests to its own server
 * only. The viewer's images are part of its style sheet.
 */
export const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  'img-src data:',
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'self'",
].join('; ');

export const VIEWER_PAGE: string = page(`<link rel="stylesheet" href="openapi/viewer.css">
</head>
<body>
<div id="viewer"></div>
<script src="openapi/viewer.js"></script>
<script src="openapi/start.js"></script>`);

export const PLAIN_PAGE: string = page(`</head>
<body>
<h1>HTTP endpoints</h1>
<p>The endpoints are described in <a href="openapi.json">openapi.json</a> (OpenAPI 3.1).</p>
<p>To read and try them on this page, run <code>npm install ${VIEWER_PACKAGE} --ignore-scripts</code> in Node-RED's user
directory and restart Node-RED.</p>`);

function page(content: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>HTTP endpoints</title>
<link rel="icon" href="data:,">
${content}
</body>
</html>
`;
}
