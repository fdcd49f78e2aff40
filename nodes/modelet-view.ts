/** Picture preview: shows the newest picture with its results in the editor, and passes every message on. */
import type { Node, NodeAPI, NodeDef, NodeMessage } from 'node-red';
import { compileView } from '../src/config/compile.ts';
import { configure } from '../src/config/configure.ts';
import { ModeletError } from '../src/core/errors.ts';
import { checkProperty, type LiveFlowNode } from '../src/node-red/live-nodes.ts';
import { logFault } from '../src/node-red/log.ts';
import { pipelineOf } from '../src/node-red/pipeline.ts';
import { valueIn } from '../src/node-red/request/messages.ts';
import { showInvalid, viewBadge } from '../src/node-red/status.ts';
import { dataUrlOf } from '../src/node-red/view/drawn-picture.ts';

/** Size of the letters of a picture that only the sidebar shows, as if it were so wide, in px. */
const SIDEBAR_WIDTH = 240;

export default function register(RED: NodeAPI): void {
  const { previews } = pipelineOf(RED);
  RED.nodes.registerType('modelet-view', function (this: Node, definition: NodeDef) {
    RED.nodes.createNode(this, definition);
    const config = configure('modelet-view', () => {
      const compiled = compileView({ ...definition });
      checkProperty(RED, 'picture', compiled.picture);
      checkProperty(RED, 'results', compiled.results);
      return compiled;
    });
    if (config instanceof ModeletError) {
      showInvalid(this, config);
      this.on('input', (msg, send, done) => {
        send(msg);
        done();
      });
      return;
    }
    // A drawing costs time, so the node makes one only for an output that leads somewhere.
    const isWired = ((this as LiveFlowNode).wires?.[1] ?? []).length > 0;
    const tell = badgeOf(this);
    tell(null);
    let topic: string | undefined;
    const sendDrawing = async (): Promise<void> => {
      const shown = await preview.drawn();
      tell('problem' in shown ? shown.problem : null);
      if ('problem' in shown) return;
      const { svg, width, height } = shown;
      const drawing = { payload: dataUrlOf(svg), width, height, ...(topic === undefined ? {} : { topic }) };
      this.send([null, drawing as NodeMessage]);
    };
    const preview = previews.add(this.id, { ...config, shownWidth: config.width || SIDEBAR_WIDTH }, tell, () => {
      if (isWired) sendDrawing().catch((thrown: unknown) => logFault(RED, 'a picture could not be sent', thrown));
    });
    this.on('input', (msg, send, done) => {
      topic = msg.topic;
      preview.take({ picture: valueIn(RED, msg, config.picture), results: valueIn(RED, msg, config.results) });
      send(msg);
      done();
    });
    this.on('close', () => previews.remove(this.id, preview));
  });
}

/** Returns a function that shows on the node why it shows no picture; null: it shows one. */
function badgeOf(node: Node): (problem: string | null) => void {
  // Undefined, because the badge of the node that this one replaces may still be shown.
  let told: string | null | undefined;
  return (problem) => {
    if (problem !== told) node.status(viewBadge(problem));
    told = problem;
  };
}
