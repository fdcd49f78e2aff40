/** One Node-RED and one browser for the tests of a process, and pages in it that must be without errors at the end. */
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import type { Browser, BrowserContext } from 'playwright-core';
import { launchBrowser, NodeRedProcess, type StartOptions } from '../fixtures/editor.ts';
import { EditorPage } from './editor-page.ts';

export interface Session {
  readonly nodeRed: NodeRedProcess;
  /** Opens the editor with these flows deployed, lets the test work with it, and closes it. Fails on errors in the page. */
  inEditor(flows: readonly object[], work: (editor: EditorPage) => Promise<void>): Promise<void>;
  /** The same with the flows that Node-RED has. `token`: of an account that has logged in. */
  inDeployed(work: (editor: EditorPage) => Promise<void>, token?: string): Promise<void>;
}

let shared: Session | undefined;

/** Returns the session with the usual settings. The first file of a process that asks for it has it started. */
export function sharedSession(): Session {
  // An example uses this module.
  shared ??= startSession({ modules: ['jpeg-js'] });
  return shared;
}

/** Starts Node-RED and a browser before the tests of a file or of a `describe`, and stops them afterwards. */
export function startSession(options: StartOptions = {}): Session {
  let nodeRed: NodeRedProcess | undefined;
  let browser: Browser | undefined;
  let context: BrowserContext | undefined;

  before(async () => {
    [nodeRed, browser] = await Promise.all([NodeRedProcess.start(options), launchBrowser()]);
    // One for all pages: the editor's scripts come from its cache from the second page on.
    context = await browser.newContext();
  });
  after(async () => {
    await browser?.close();
    await nodeRed?.stop();
  });

  return {
    get nodeRed(): NodeRedProcess {
      assert.ok(nodeRed, 'Node-RED runs');
      return nodeRed;
    },
    async inEditor(flows, work): Promise<void> {
      assert.ok(nodeRed, 'Node-RED runs');
      await nodeRed.deploy(flows);
      await this.inDeployed(work);
    },
    async inDeployed(work, token): Promise<void> {
      assert.ok(context && nodeRed, 'Node-RED and the browser run');
      const editor = await EditorPage.open(context, nodeRed, token);
      try {
        await work(editor);
        assert.deepEqual(editor.problems, []);
      } finally {
        await editor.close();
      }
    },
  };
}
