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

/** A field's element, and the input in its place if the field has a choice of types. */
interface Place {
  readonly element: string;
  readonly typed: string;
}

declare const document: {
  querySelector(selector: string): Control | null;
  querySelectorAll(selector: string): Iterable<{ open: boolean }>;
  execCommand(command: string, hasNoDialog: boolean, value?: string): boolean;
};
declare const KeyboardEvent: new (type: string, init: object) => Event;

interface Control {
  readonly nodeName: string;
  readonly type: string;
  readonly disabled: boolean;
  readonly readOnly?: boolean;
  readonly options: Iterable<{ readonly value: string }>;
  checked: boolean;
  value: string;
  click(): void;
  focus(): void;
  blur(): void;
  select(): void;
  checkVisibility(options: object): boolean;
  dispatchEvent(event: Event): boolean;
}

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
  input(property: string): Promise<Locator> {
    return this.#inputAt(this.#place(property));
  }

  async #inputAt({ element, typed }: Place): Promise<Locator> {
    const separate = this.#editor.page.locator(typed);
    return (await separate.count()) > 0 ? separate : this.#editor.page.locator(element);
  }

  /** Unfolds the folded rows, on all tabs. */
  async unfold(): Promise<void> {
    // Not by clicks: where a list above comes late, a click meets another group and folds it.
    await this.#editor.page.evaluate(() => {
      for (const group of document.querySelectorAll('.modelet-form details')) group.open = true;
    });
  }

  async set(values: Values): Promise<void> {
    let fields: [Place, string | boolean][] = [];
    for (const [property, value] of Object.entries(values)) {
      const tab = CODE_TABS[property];
      if (tab) {
        await this.#setFields(fields);
        fields = [];
        await this.#editor.reveal(this.#editor.page.locator('#modelet-stage-code-row'));
        await this.#editor.typeCode(tab, String(value));
      } else fields.push([this.#place(property), property === 'baseline' ? percent(value) : value]);
    }
    await this.#setFields(fields);
  }

  /** Sets all at once that can be seen and used; looks for a field that cannot. */
  async #setFields(fields: readonly (readonly [Place, string | boolean])[]): Promise<void> {
    for (let rest = fields; rest.length > 0; ) {
      rest = rest.slice(await this.#editor.page.evaluate(setFields, rest));
      const [first] = rest;
      if (!first) return;
      await this.#setField(await this.#inputAt(first[0]), first[1]);
      rest = rest.slice(1);
    }
  }

  #place(property: string): Place {
    // The share of a gate that stays free is saved as a share and typed as a percentage.
    const element = property === 'baseline' ? '#modelet-gate-keep' : `#${this.#prefix}-${property}`;
    return { element, typed: `${element} + .red-ui-typedInput-container .red-ui-typedInput-input` };
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
    const places = properties.flatMap((property): [string, Place][] => {
      const element = `#${this.#prefix}-${property}`;
      const ofShare = { element, typed: element };
      return CODE_TABS[property] ? [] : [[property, property === 'baseline' ? ofShare : this.#place(property)]];
    });
    Object.assign(shown, await this.#editor.page.evaluate(readFields, places));
    for (const property of properties) {
      const tab = CODE_TABS[property];
      if (tab) shown[property] = await this.#code(tab);
      else assert.ok(property in shown, `a field ${property}`);
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
    await this.set({ [property]: value });
    const marked = this.#editor.page.locator(`#${this.#prefix}-${property}.input-error`);
    await marked.waitFor({ state: 'attached' });
    // If another element hides the property's element, there is nothing to point at.
    if (reason && (await marked.isVisible())) assert.match(await this.#reason(property), reason);
  }

  /** Returns the tooltip of a marked field at once. A pointer would have to rest on it for a second. */
  async #reason(property: string): Promise<string> {
    const { page } = this.#editor;
    if (this.#pointed) return page.evaluate(openTooltip, `#${this.#prefix}-${property}`);
    this.#pointed = true;
    const tip = page.locator('.red-ui-popover-content');
    // The pointer may have rested on something else with a tip.
    await this.#editor.pointAway();
    await (await this.input(property)).hover();
    const text = await tip.textContent();
    await this.#editor.pointAway();
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

/**
 * Runs in the page. Sets fields as a person does, with the same events, until one is on another tab, folded, hidden or
 * disabled. Each step from outside costs as much as all of them here. @returns how many it has set
 */
function setFields(fields: readonly (readonly [Place, string | boolean])[]): number {
  const canUse = (field: Control): boolean =>
    field.checkVisibility({ visibilityProperty: true }) && !field.disabled && !field.readOnly;
  const type = (field: Control, text: string): void => {
    field.select();
    if (text === '') document.execCommand('delete', false);
    else document.execCommand('insertText', false, text);
    // For the listeners of keys.
    for (const kind of ['keydown', 'keyup']) {
      field.dispatchEvent(new KeyboardEvent(kind, { key: 'End', code: 'End', keyCode: 35, bubbles: true }));
    }
    field.blur();
  };
  const choose = (field: Control, value: string): boolean => {
    if (![...field.options].some((option) => option.value === value)) return false;
    field.value = value;
    for (const kind of ['input', 'change']) field.dispatchEvent(new Event(kind, { bubbles: true }));
    return true;
  };
  let done = 0;
  for (const [{ element, typed }, value] of fields) {
    const field = document.querySelector(typed) ?? document.querySelector(element);
    if (!field || !canUse(field)) return done;
    if (typeof value === 'boolean') {
      if (field.checked !== value) field.click();
    } else {
      field.focus();
      if (field.nodeName !== 'SELECT') type(field, value);
      else if (!choose(field, value)) return done;
    }
    done += 1;
  }
  return done;
}

/** Runs in the page. Leaves out fields that are not there. */
function readFields(places: readonly (readonly [string, Place])[]): Record<string, string | boolean> {
  const shown: Record<string, string | boolean> = {};
  for (const [property, { element, typed }] of places) {
    const own = document.querySelector(element);
    const field = own?.type === 'checkbox' ? own : (document.querySelector(typed) ?? own);
    if (field) shown[property] = field.type === 'checkbox' ? field.checked : field.value;
  }
  return shown;
}

async function openTooltip(field: string): Promise<string> {
  const tooltip = $(field).data('tooltip');
  tooltip.open(true);
  // Its text may come late.
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
