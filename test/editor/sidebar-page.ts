/** The sidebar "modelets" as a person sees it. */
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import type { Locator } from 'playwright-core';
import { until } from '../fixtures/polling.ts';
import type { EditorPage } from './editor-page.ts';

declare const RED: { readonly actions: { invoke(action: string): void } };

export class SidebarPage {
  readonly root: Locator;
  readonly #editor: EditorPage;

  private constructor(editor: EditorPage) {
    this.#editor = editor;
    this.root = editor.page.locator('.modelet-sb-root');
  }

  /** Brings it up by its action, which the menu and keyboard shortcuts call too. */
  static async show(editor: EditorPage): Promise<SidebarPage> {
    await editor.page.evaluate(() => RED.actions.invoke('modelets:show-sidebar'));
    const sidebar = new SidebarPage(editor);
    await sidebar.root.waitFor({ state: 'visible' });
    return sidebar;
  }

  /** Brings up another tab in its place. */
  async leave(): Promise<void> {
    await this.#editor.page.evaluate(() => RED.actions.invoke('core:show-info-tab'));
    await this.root.waitFor({ state: 'hidden' });
  }

  /** Waits until the sentence that begins the sidebar, or one of the others, is of this kind. Some may be folded away. */
  async verdict(text: RegExp, kind: string): Promise<void> {
    const finding = this.root.locator(`.modelet-sb-finding[data-kind="${kind}"] > button`, { hasText: text });
    await finding.first().waitFor({ state: 'attached' });
  }

  /**
   * Waits until the sidebar says that all is well, and sends a request through every endpoint: each must have an answer.
   * @param bodies a good request for each endpoint, by its path
   */
  async allIsWell(url: string, bodies: Readonly<Record<string, unknown>>): Promise<void> {
    const names = this.root.locator('.modelet-sb-endpoint-name');
    const good = this.root.locator('.modelet-sb-finding[data-kind="good"]', { hasText: /^All is well\./ });
    const paths = Object.keys(bodies).toSorted();
    let endpoints: [string, string][] = [];
    await until('all is well with these endpoints', async () => {
      endpoints = (await names.allTextContents()).map((name) => name.split(' ') as [string, string]);
      return (await good.count()) > 0 && isDeepStrictEqual(endpoints.map(([, path]) => path).toSorted(), paths);
    }).catch(async () => assert.fail(`${await this.root.textContent()} instead of all is well with ${paths}`));
    for (const [method, path] of endpoints) {
      const headers = { 'Content-Type': 'application/json' };
      const response = await fetch(`${url}${path}`, { method, headers, body: JSON.stringify(bodies[path]) });
      assert.equal(response.status, 200, `${method} ${path}: ${await response.text()}`);
    }
  }

  stage(id: string): Locator {
    return this.root.locator(`[data-stage="${id}"]`);
  }

  /** Throughput of a stage once it has any. */
  async rateOf(id: string): Promise<number> {
    const rate = this.stage(id).locator('.modelet-sb-rate').filter({ hasText: /[1-9]/ });
    await rate.waitFor();
    return Number.parseFloat((await rate.textContent()) ?? '');
  }

  /** Unfolds the list of a stage's workers. */
  async showWorkers(id: string): Promise<void> {
    const workers = this.stage(id).locator('details.modelet-sb-workers');
    if ((await workers.getAttribute('open')) === null) await workers.locator('summary').click();
    await workers.locator('.modelet-sb-pid', { hasText: /\d/ }).first().waitFor();
  }

  /** Process ids of a stage's workers, as they are shown. */
  async pidsOf(id: string): Promise<number[]> {
    const texts = await this.stage(id).locator('.modelet-sb-pid').allTextContents();
    return texts.map((text) => Number(/\d+/.exec(text)?.[0]));
  }

  /** A figure in the head of the first runtime: `req/s`, `err/s`, `p50`, `p99` or `open`. */
  figure(label: string): Locator {
    return this.root.locator('.modelet-sb-figure', { hasText: label }).first().locator('b');
  }
}
