/** Entry: a bare HTTP server with the model of the benchmark in its request handler. */
import { createServer } from 'node:http';

createServer((request, response) => {
  const chunks: Buffer[] = [];
  request
    .on('data', (chunk: Buffer) => chunks.push(chunk))
    .on('end', () => {
      const { values } = JSON.parse(Buffer.concat(chunks).toString()) as { values: number[] };
      const body = JSON.stringify({ sum: values.reduce((total, value) => total + value, 0) });
      response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) });
      response.end(body);
    });
}).listen(Number(process.argv[2]), '127.0.0.1');
