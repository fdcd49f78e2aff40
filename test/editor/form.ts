/** The fields of an open dialog by the names of their properties, whatever kind of field each is. */
import assert from 'node:assert/strict';
import type { Locator } from 'playwright-core';
import type { CodeTab, EditorPage } from './editor-page.ts';

interface Tooltip {
  open(atOnce: boolean): void;
  close(atOnce: boolean): void;
}

/** The editor's jQuery. */
declare const $: (selector: string) => { data(key: 'tooltip'): Tooltip; text(): string };

export type Values = Readonly<Record<string, string | boolean>>;

const CODE_TABS: Readonly<Record<string, CodeTab>> = { setup: 'start', code: 'code', teardown: 'stop' };

declare const document: { querySelectorAll(selector: string): Iterable<{ open: boolean }> };

/** The dialog of a node, or with `config` that of a config node. */
export class Form {
  readonly #editor: EditorPage;
  readonly #prefix: string;
  #pointed = false;

  constructor(editor: EditorPage, kind: 'node' | 'config' = 'node') {
    this.#editor = editor;
    this.#prefix = kind === 'config' ? 'node-config-input' : 'node-input';
  }

  /** The element that Node-RED reads the property from, and marks if it is not valid. */
  element(property: string): Locator {
    return this.#editor.page.locator(`#${this.#prefix}-${property}`);
  }

  /** The input that a person types into: a field with a choice of types has a separate one. */
  async input(property: string): Promise<Locator> {
    const typed = this.#editor.page.locator(
      `#${this.#prefix}-${property} + .red-ui-typedInput-container .red-ui-typedInput-input`,
    );
    // The share of a gate that stays free is saved as a share and typed as a percentage.
    if (property === 'baseline') return this.#editor.page.locator('#modelet-gate-keep');
    return (await typed.count()) > 0 ? typed : this.element(property);
  }

  /** Unfolds the folded rows, on all tabs. */
  async unfold(): Promise<void> {
    // Not by clicks: where a list above comes late, a click meets another group and folds it.
    await this.#editor.page.evaluate(() => {
      for (const group of document.querySelectorAll('.modelet-form details')) group.open = true;
    });
  }

  async set(values: Values): Promise<void> {
    for (const [property, value] of Object.entries(values)) {
      const tab = CODE_TABS[property];
      if (tab) {
        await this.#editor.reveal(this.#editor.page.locator('#modelet-stage-code-row'));
        await this.#editor.typeCode(tab, String(value));
      } else await this.#setField(await this.input(property), property === 'baseline' ? percent(value) : value);
    }
  }

  async #setField(field: Locator, value: string | boolean): Promise<void> {
    await this.#editor.reveal(field);
    const folded = field.locator('xpath=ancestor::details[not(@open)]/summary');
    if ((await folded.count()) > 0) await folded.click();
    if (typeof value === 'boolean') await field.setChecked(value);
    else if (await isSelect(field)) await field.selectOption(value);
    else await this.#editor.fill(field, value);
  }

  /** The values that the form shows for these properties. */
  async get(properties: readonly string[]): Promise<Values> {
    const shown: Record<string, string | boolean> = {};
    for (const property of properties) {
      const tab = CODE_TABS[property];
      if (tab) shown[property] = await this.#code(tab);
      else if ((await this.element(property).getAttribute('type')) === 'checkbox')
        shown[property] = await this.element(property).isChecked();
      else if (property === 'baseline') shown[property] = await this.element(property).inputValue();
      else shown[property] = await (await this.input(property)).inputValue();
    }
    return shown;
  }

  async #code(tab: CodeTab): Promise<string> {
    await this.#editor.reveal(this.#editor.page.locator('#modelet-stage-code-row'));
    const text = (await (await this.#editor.showCode(tab)).textContent()) ?? '';
    // The code editor shows blanks that do not break.
    return text.replaceAll('\u00a0', ' ').trim();
  }

  /** Types what the field does not take, and sees that it turns red and, if a reason is given, that it says so. */
  async assertRefuses(property: string, value: string, reason?: RegExp): Promise<void> {
    const field = await this.input(property);
    await this.set({ [property]: value });
    const marked = this.#editor.page.locator(`#${this.#prefix}-${property}.input-error`);
    await marked.waitFor({ state: 'attached' });
    // If another element hides the property's element, there is nothing to point at.
    if (reason && (await marked.isVisible())) assert.match(await this.#reason(property, field), reason);
  }

  /** Returns the tooltip of a marked field at once. A pointer would have to rest on it for a second. */
  async #reason(property: string, field: Locator): Promise<string> {
    const { page } = this.#editor;
    if (this.#pointed) return page.evaluate(openTooltip, `#${this.#prefix}-${property}`);
    this.#pointed = true;
    const tip = page.locator('.red-ui-popover-content');
    // The pointer may have rested on something else with a tip.
    await page.mouse.move(0, 0);
    await tip.waitFor({ state: 'detached' });
    await field.hover();
    const text = await tip.textContent();
    await page.mouse.move(0, 0);
    await tip.waitFor({ state: 'detached' });
    return text ?? '';
  }

  async assertTakes(property: string, value: string): Promise<void> {
    await this.set({ [property]: value });
    await this.#editor.page.locator(`#${this.#prefix}-${property}:not(.input-error)`).waitFor({ state: 'attached' });
  }

  /** Properties whose fields are marked. */
  async marked(): Promise<string[]> {
    const ids = await this.#editor.page
      .locator(`[id^="${this.#prefix}-"].input-error`)
      .evaluateAll((elements) => elements.map(({ id }) => id));
    return ids.map((id) => id.slice(this.#prefix.length + 1)).sort();
  }
}

function percent(share: string | boolean): string {
  return Number.isNaN(Number(share)) || share === '' ? String(share) : String(Number((Number(share) * 100).toFixed(6)));
}

async function openTooltip(field: string): Promise<string> {
  const tooltip = $(field).data('tooltip');
  tooltip.open(true);
  // Its text may be one that has to be waited for.
  await new Promise((resolve) => setTimeout(resolve));
  const text = $('.red-ui-popover-content').text();
  tooltip.close(true);
  return text;
}

async function isSelect(field: Locator): Promise<boolean> {
  const name = await field.evaluate(({ nodeName }) => nodeName);
  assert.ok(['SELECT', 'INPUT'].includes(name), `a field of kind ${name}`);
  return name === 'SELECT';
}
