/** Values to try in a dialog's fields: those that it must refuse, with its reasons, and those that it must take. */
import assert from 'node:assert/strict';
import { NODE_SCHEMAS, type NodeType } from '../fixtures/node-schemas.ts';
import { until } from '../fixtures/polling.ts';
import type { EditorPage } from './editor-page.ts';
import type { Form } from './form.ts';

interface Validated {
  readonly validate?: (value: string, options: object) => unknown;
}

declare const RED: {
  readonly nodes: {
    getType(type: string): { readonly defaults: Readonly<Record<string, Validated>> };
    node(id: string): object;
  };
};

export interface Trial {
  readonly property: string;
  readonly bad: readonly (readonly [value: string, reason?: RegExp])[];
  readonly good: string;
}

/** Both sides of the bounds that the schema has for a type's numbers. The reason, which has both, is read once. */
export function numberTrials(type: NodeType): Trial[] {
  return Object.entries(NODE_SCHEMAS[type].properties).flatMap(([property, { minimum, maximum, ...rest }]) => {
    if (minimum === undefined || maximum === undefined) return [];
    const kind = rest.type === 'integer' ? 'whole number' : 'number';
    const reason = new RegExp(`must be a ${kind} from ${minimum} to ${maximum}$`);
    const tooLow = minimum > 0 ? '0' : '-1';
    return [{ property, bad: [[tooLow], [String(maximum + 1), reason]], good: String(maximum) }];
  });
}

/**
 * Asks the validators of a node's numbers as Node-RED does, but without its form: by hand it would take minutes.
 * `beside`: what else the node is to have for a property to count.
 */
export async function assertBounds(
  editor: EditorPage,
  id: string,
  type: NodeType,
  beside: (property: string) => object = () => ({}),
): Promise<void> {
  const trials = numberTrials(type).map(({ property, bad, good }) => {
    return { property, beside: beside(property), values: [...bad.map(([value]) => value), good] };
  });
  assert.ok(trials.length > 0, 'it has numbers');
  const answers = await editor.page.evaluate(
    ([id, type, all]) => {
      const { defaults } = RED.nodes.getType(type);
      return all.map(({ property, beside, values }) => {
        const node = { ...RED.nodes.node(id), ...beside };
        return values.map((value) => defaults[property]?.validate?.call(node, value, {}));
      });
    },
    [id, type, trials] as const,
  );
  for (const [index, { property }] of trials.entries()) {
    const [low, high, good] = answers[index] ?? [];
    const { minimum, maximum } = NODE_SCHEMAS[type].properties[property] ?? {};
    assert.equal(good, true, property);
    // A share that is typed as a percentage.
    const bounds = property === 'baseline' ? ' from 0 to 100 %' : ` from ${minimum} to ${maximum}`;
    for (const reason of [low, high]) assert.ok(String(reason).endsWith(bounds), property);
  }
}

/** Leaves the form with the last good values. */
export async function tryAll(form: Form, trials: readonly Trial[]): Promise<void> {
  for (const { property, bad, good } of trials) {
    for (const [value, reason] of bad) await form.assertRefuses(property, value, reason);
    await form.assertTakes(property, good);
  }
  assert.deepEqual(await form.marked(), []);
}

/** The editor's validity of a node, which the canvas must show as well. */
export async function validityOf(
  editor: EditorPage,
  id: string,
): Promise<{ valid: boolean; errors: readonly string[] }> {
  const mark = editor.node(id).locator('.red-ui-flow-node-error:visible');
  // The canvas is drawn a little later.
  const node = await until('the canvas shows whether the node is valid', async () => {
    const all = [...(await editor.nodes()), ...(await editor.configNodes())];
    const found = all.find((candidate) => candidate.id === id);
    assert.ok(found);
    return (found.type === 'modelet-runtime' || (await mark.count()) === (found.valid ? 0 : 1)) && found;
  });
  return { valid: node.valid, errors: node.errors };
}
