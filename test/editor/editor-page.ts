/** The editor as a person sees it: palette, canvas and dialogs, worked with mouse and keyboard. */
import assert from 'node:assert/strict';
import type { Locator, Page } from 'playwright-core';
import type { NodeRedWithEditor } from '../fixtures/editor.ts';
import { until } from '../fixtures/polling.ts';
import { type EditorGlobals, type ExportedNode, isLoaded, isSettled, loadFlows, unloadFlows } from './in-page.ts';

declare const RED: EditorGlobals;
declare const $: (selector: string) => { readonly length: number; trigger(event: string): void };

export interface EditorNode {
  readonly id: string;
  readonly type: string;
  readonly name: string;
  readonly valid: boolean;
  /** Why it is not valid. */
  readonly errors: readonly string[];
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** The code editors of a stage, by their tabs. */
export type CodeTab = 'start' | 'code' | 'stop';

const VIEWPORT = { width: 1400, height: 700 };
/** Between two looks at a page. Each frame would be drawn for a look at each frame. */
const LOOKS = { polling: 30 };

/** Whether the code editor alone is at fault: it looks for folds and links a little later, when a dialog may have closed. */
function isOfCodeEditor({ message, stack = '' }: Error): boolean {
  const frames = stack.split('\n').filter((line) => /^\s+at /.test(line));
  return message.includes('Model is disposed!') && frames.every((frame) => frame.includes('/vendor/monaco/'));
}

export class EditorPage {
  readonly page: Page;
  /** Errors on the console, and uncaught exceptions. */
  readonly problems: string[] = [];

  private constructor(page: Page) {
    this.page = page;
    page.on('console', (message) => {
      if (message.type() === 'error') this.problems.push(`${message.text()} (${message.location().url})`);
    });
    page.on('pageerror', (error) => {
      if (!isOfCodeEditor(error)) this.problems.push(`uncaught: ${error.stack ?? error.message}`);
    });
  }

  /** Opens the editor; resolves when it can be worked with. `token`: of an account that has logged in. */
  static async open(page: Page, nodeRed: Pick<NodeRedWithEditor, 'editorUrl'>, token?: string): Promise<EditorPage> {
    const editor = new EditorPage(page);
    await editor.page.setViewportSize(VIEWPORT);
    await editor.page.goto(`${nodeRed.editorUrl}${token ? `?access_token=${token}` : ''}`);
    await editor.page.waitForFunction(isLoaded, undefined, LOOKS);
    return editor;
  }

  close(): Promise<void> {
    return this.page.close();
  }

  /**
   * Empties the editor as a change of projects does, so that another test can use it: a new page takes seconds.
   * Resolves with false if the test has left a dialog open or hides something.
   */
  async unload(): Promise<boolean> {
    await this.page.mouse.move(0, 0);
    const size = this.page.viewportSize();
    if (size?.width !== VIEWPORT.width || size.height !== VIEWPORT.height) await this.page.setViewportSize(VIEWPORT);
    return this.page.evaluate(unloadFlows);
  }

  /** Shows the flows that Node-RED has after `unload`. */
  async load(): Promise<void> {
    await this.page.evaluate(loadFlows);
  }

  get chart(): Locator {
    return this.page.locator('#red-ui-workspace-chart');
  }

  /** A node on the canvas. */
  node(id: string): Locator {
    return this.page.locator(`[id="${id}"]`);
  }

  paletteNode(type: string): Locator {
    return this.page.locator(`.red-ui-palette-node[data-palette-type="${type}"]`);
  }

  /** Drags a node from the palette to a place on the canvas; gives its id. */
  async dragFromPalette(type: string, x: number, y: number): Promise<string> {
    const before = new Set((await this.nodes()).map(({ id }) => id));
    const source = this.paletteNode(type);
    await source.scrollIntoViewIfNeeded();
    const canvas = await boxOf(this.chart);
    await this.#drag(await centreOf(source), { x: canvas.x + x, y: canvas.y + y });
    const added = (await this.nodes()).filter((node) => node.type === type && !before.has(node.id));
    assert.equal(added.length, 1, `one new ${type} on the canvas`);
    const id = added[0]?.id ?? '';
    await this.node(id).waitFor();
    return id;
  }

  /** Draws a wire from an output to the input of another node. */
  async wire(from: string, to: string, output = 0): Promise<void> {
    const port = this.node(from).locator('.red-ui-flow-port-output .red-ui-flow-port').nth(output);
    const target = this.node(to).locator('.red-ui-flow-port-input .red-ui-flow-port');
    await this.#drag(await centreOf(port), await centreOf(target));
    const wires = (await this.saved(from)).wires?.[output] ?? [];
    assert.ok(wires.includes(to), `a wire from ${from} to ${to}`);
  }

  async #drag(from: Point, to: Point): Promise<void> {
    await this.page.mouse.move(from.x, from.y);
    await this.page.mouse.down();
    await this.page.mouse.move(from.x + 10, from.y + 5);
    await this.page.mouse.move(to.x, to.y, { steps: 2 });
    // A wire on the way takes up a node that lingers over it, and lets go of it a while after the node has moved on.
    await this.page.locator('.red-ui-flow-link-splice').waitFor({ state: 'detached' });
    await this.page.mouse.up();
  }

  /** The nodes on all tabs. */
  nodes(): Promise<EditorNode[]> {
    return this.page.evaluate(() => {
      const found: EditorNode[] = [];
      RED.nodes?.eachNode(({ id, type, name, valid, validationErrors }) => {
        const errors = Array.isArray(validationErrors) ? validationErrors.map(String) : [];
        found.push({ id: String(id), type: String(type), name: String(name ?? ''), valid: valid !== false, errors });
      });
      return found;
    });
  }

  configNodes(): Promise<EditorNode[]> {
    return this.page.evaluate(() => {
      const found: EditorNode[] = [];
      RED.nodes?.eachConfig(({ id, type, name, valid, validationErrors }) => {
        const errors = Array.isArray(validationErrors) ? validationErrors.map(String) : [];
        found.push({ id: String(id), type: String(type), name: String(name ?? ''), valid: valid !== false, errors });
      });
      return found;
    });
  }

  /** A node as a deploy would save it now. */
  async saved(id: string): Promise<ExportedNode> {
    const all = await this.page.evaluate(() => RED.nodes?.createCompleteNodeSet() ?? []);
    const node = all.find((candidate) => candidate.id === id);
    assert.ok(node, `a node ${id}`);
    return node;
  }

  badge(id: string): Locator {
    return this.node(id).locator('.red-ui-flow-node-status-label');
  }

  /** Waits until the text below a node is as wanted, and gives it. */
  async waitForBadge(id: string, wanted: RegExp): Promise<string> {
    const badge = this.badge(id).filter({ hasText: wanted });
    await badge.waitFor({ state: 'visible' }).catch(async () => {
      assert.fail(`the badge of ${id} is "${await this.badge(id).textContent()}" instead of ${wanted}`);
    });
    return (await badge.textContent()) ?? '';
  }

  /** Waits until the debug sidebar has a line like this, which may be behind another tab. */
  async waitForDebug(text: RegExp): Promise<void> {
    await this.page.locator('.red-ui-debug-msg', { hasText: text }).first().waitFor({ state: 'attached' });
  }

  /** Restarts the flows by the action of the deploy menu, whereupon nodes log again what is wrong with them. */
  async restartFlows(): Promise<void> {
    await this.page.evaluate(() => RED.actions.invoke('core:restart-flows'));
    await this.page.locator('#red-ui-full-shade:visible, #red-ui-editor-shade:visible').waitFor({ state: 'detached' });
  }

  /** The debug sidebar has no line like this. */
  async assertNoDebug(text: RegExp): Promise<void> {
    const lines = await this.page.locator('.red-ui-debug-msg', { hasText: text }).allTextContents();
    assert.deepEqual(lines, []);
  }

  /** Opens the dialog of a node on the canvas. */
  async open(id: string): Promise<void> {
    const before = await this.#countDialogs();
    // On a machine that does much else the second click may come too late to make a double click of both.
    for (let tries = 0; tries < 5 && (tries === 0 || (await this.#countDialogs()) === before); tries += 1) {
      await this.node(id).locator('rect.red-ui-flow-node').dblclick();
    }
    assert.equal(await this.#countDialogs(), before + 1, `the dialog of ${id} is open`);
    await this.settle();
  }

  #countDialogs(): Promise<number> {
    return this.page.evaluate(() => RED.editor.getEditStack().length);
  }

  /** Opens the dialog of the config node that a property of the open dialog refers to, or with `add` of a new one. */
  async openConfig(property: string, what: 'edit' | 'add' = 'edit'): Promise<void> {
    const ids = ['node-input', 'node-config-input'].map((prefix) => `#${prefix}-btn-${property}-${what}`);
    const button = this.page.locator(ids.join());
    await this.reveal(button);
    const open = await this.#countDialogs();
    await button.click();
    // The open dialog may be that of a config node, too.
    await this.settle(open + 1);
    await this.page.locator('#node-config-dialog-ok').waitFor();
  }

  /** Opens the tab of the dialog that the element is on. */
  async reveal(element: Locator): Promise<void> {
    const hidden = await element.evaluate((inside) => inside.closest('.modelet-page[hidden]')?.id);
    if (hidden) await this.openTab(hidden);
  }

  /** Opens a tab of the stage dialog by the id of its page. */
  async openTab(id: string): Promise<void> {
    const page = this.page.locator(`#${id}`);
    // Node-RED 4.1 takes two clicks within 400 ms for a double click, also on different tabs, and ignores the second.
    for (let clicks = 0; clicks < 5 && !(await page.isVisible()); clicks += 1) {
      await this.page.locator(`#red-ui-tab-${id}`).click();
    }
    await page.waitFor();
    await this.pointAway();
  }

  /**
   * Moves the pointer away, and waits until no tip is shown. Node-RED keeps a tip that was left and pointed at again within
   * 50 ms: it goes when it is clicked.
   */
  async pointAway(): Promise<void> {
    await this.page.mouse.move(0, 0);
    await this.page.waitForFunction(
      () => {
        $('.red-ui-tooltip').trigger('mousedown');
        return $('.red-ui-popover-content').length === 0;
      },
      undefined,
      LOOKS,
    );
  }

  /** A field of the open dialog. */
  field(property: string): Locator {
    return this.page.locator(`#node-input-${property}`);
  }

  /** Types a value over what a field holds, and leaves the field. */
  async fill(field: Locator, value: string): Promise<void> {
    // At once, as the page is laid out again after each key, and one key for the listeners of keys.
    await field.fill(value);
    await field.press('End');
    // Not by the tab key: it takes what a field that completes words has to offer.
    await field.blur();
  }

  /** Turns to a code tab of the open stage dialog; gives its lines. */
  async showCode(tab: CodeTab): Promise<Locator> {
    const lines = this.page.locator(`#modelet-stage-${tab}-editor .view-lines`);
    // Node-RED 4.1 takes two clicks within 400 ms for a double click, also on different tabs, and ignores the second.
    for (let clicks = 0; clicks === 0 || (clicks < 5 && !(await lines.isVisible())); clicks += 1) {
      await this.page.locator(`#red-ui-tab-modelet-stage-${tab}`).click();
    }
    await lines.waitFor();
    return lines;
  }

  /** Types one line of code over what a code editor of the open stage dialog holds. */
  async typeCode(tab: CodeTab, line: string): Promise<void> {
    await (await this.showCode(tab)).click();
    await this.page.keyboard.press('ControlOrMeta+a');
    await this.page.keyboard.press('Delete');
    // At once, as a line that is dictated: key by key, the editor would complete words and close brackets by itself.
    await this.page.keyboard.insertText(line);
  }

  /** Saves the topmost dialog. */
  ok(): Promise<void> {
    return this.#closeWith('#node-dialog-ok:visible, #node-config-dialog-ok:visible');
  }

  cancel(): Promise<void> {
    return this.#closeWith('#node-dialog-cancel:visible, #node-config-dialog-cancel:visible');
  }

  async #closeWith(buttons: string): Promise<void> {
    const open = await this.#countDialogs();
    await this.page.locator(buttons).last().click();
    await this.settle(open - 1);
  }

  /**
   * Waits until the topmost dialog has the only tray, if there is one, and nothing slides in or out. A tray gets a place
   * once its form is filled in, maybe with credentials. The dialogs of two config nodes differ in their fields only.
   * `count`: of dialogs that are to be open, one upon the other.
   */
  async settle(count: number = -1): Promise<void> {
    await this.page.waitForFunction(isSettled, count, LOOKS);
  }

  /** Shows a tab. Not by a click: while the bar makes room for a new tab, the click may end on another than it began on. */
  async showTab(label: string): Promise<void> {
    const tab = this.page.locator('#red-ui-workspace-tabs li', { hasText: label });
    const id = String(await tab.locator('a').getAttribute('href')).slice(1);
    await this.page.evaluate((workspace) => RED.workspaces.show(workspace), id);
    await this.page.locator('#red-ui-workspace-tabs li.active', { hasText: label }).waitFor();
  }

  /** Presses the deploy button, and waits until all is deployed. */
  async deploy(): Promise<void> {
    await this.page.locator('#red-ui-header-button-deploy').click();
    await this.page.waitForFunction(
      () => RED.nodes?.dirty() === false || $('.red-ui-notification button').length > 0,
      undefined,
      LOOKS,
    );
    const isDirty = await this.page.evaluate(() => RED.nodes?.dirty());
    if (isDirty) assert.fail(`Deploy asks: ${await this.page.locator('.red-ui-notification').allInnerTexts()}`);
    // A shade keeps the mouse from the canvas for a moment after a deploy. Node-RED 4.1 has another one.
    await this.page.locator('#red-ui-full-shade:visible, #red-ui-editor-shade:visible').waitFor({ state: 'detached' });
  }

  /** Deploys although a node has a red triangle, about which Deploy asks. */
  async deployAnyway(id: string): Promise<void> {
    await this.node(id).locator('.red-ui-flow-node-error').waitFor();
    await this.page.locator('#red-ui-header-button-deploy').click();
    await this.page.getByRole('button', { name: 'Confirm deploy' }).click();
    await this.page.waitForFunction(() => RED.nodes?.dirty() === false, undefined, LOOKS);
  }

  /** Chooses an entry of the main menu. */
  async choose(entry: string): Promise<void> {
    await this.page.locator('#red-ui-header-button-sidemenu').click();
    await this.page.locator(`#${entry}`).click();
  }
}

/** The properties of a saved node that its type declares, without those that Node-RED gives to each node. */
export function ours({
  id: _id,
  type: _type,
  z: _z,
  x: _x,
  y: _y,
  wires: _wires,
  ...own
}: ExportedNode): Record<string, unknown> {
  return own;
}

/** Measures an element. A code editor or the canvas may draw it anew between being found and measured: the new one counts. */
export function boxOf(element: Locator): Promise<Point & { width: number; height: number }> {
  return until(`${element} is laid out`, () => element.boundingBox());
}

export async function centreOf(element: Locator): Promise<Point> {
  const { x, y, width, height } = await boxOf(element);
  return { x: x + width / 2, y: y + height / 2 };
}
