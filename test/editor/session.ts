/** One Node-RED, one browser and mostly one page for all tests of a process: starting and loading them takes longest. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before } from 'node:test';
import type { BrowserContext } from 'playwright-core';
import { NodeRedWithEditor, type StartOptions, TestBrowser } from '../fixtures/editor.ts';
import { FakeHub } from '../fixtures/hub.ts';
import { KNOWN, type KnownModel, writeKnownModel } from '../fixtures/known-models.ts';
import { EditorPage } from './editor-page.ts';

declare const document: { readonly adoptedStyleSheets: object[] };
declare let Worker: new (url: string | URL, options?: object) => object;
declare const CSSStyleSheet: new () => { replaceSync(rules: string): void };

type Work = (editor: EditorPage) => Promise<void>;

export interface Session {
  readonly nodeRed: NodeRedWithEditor;
  /** The hub of `tiny/objects`, a detector, if the session has it. */
  readonly hub: FakeHub;
  /**
   * Deploys these flows, unless the test before has deployed the same and left them so, and lets the test work with them
   * in the editor. The debug sidebar shows what runtimes have logged since. Fails on errors in the page. A test that changes more in its page than the flows takes that back.
   */
  inEditor(flows: readonly object[], work: Work): Promise<void>;
  /** Does so with the flows that Node-RED has. `token`: of an account that has logged in. */
  inDeployed(work: Work, token?: string): Promise<void>;
}

interface SessionOptions extends StartOptions {
  /** Whether code editors complete and check JavaScript, with 7 MB of TypeScript in a worker for each dialog. */
  readonly completesCode?: boolean;
  /** Whether Node-RED has a hub of models. */
  readonly hasHub?: boolean;
}

/** One for all sessions of a process. It starts with the first of them. */
let browser: Promise<TestBrowser> | undefined;
after(async () => (await browser)?.close());

let shared: Session | undefined;

/** Returns the session with the usual settings. It starts before, and stops after, the file or suite that asks first. */
export function sharedSession(): Session {
  // An example uses this module.
  shared ??= startSession({ modules: ['jpeg-js'], hasHub: true });
  return shared;
}

/** Starts Node-RED and a browser before the tests of a file or of a `describe`, and stops Node-RED afterwards. */
export function startSession({ completesCode = false, hasHub = false, ...options }: SessionOptions = {}): Session {
  let nodeRed: NodeRedWithEditor | undefined;
  let context: BrowserContext | undefined;
  let models: { readonly folder: string; readonly hub: FakeHub } | undefined;
  /** A page that shows no flows and waits for the next test. */
  let idle: EditorPage | undefined;
  /** The flows of the last test, as text, until a test fails. */
  let deployed: { readonly text: string; readonly revision: string } | undefined;

  before(async () => {
    browser ??= TestBrowser.launch();
    if (hasHub) models = await startHub();
    const settings = { ...options.settings, ...(models ? { modelets: { hub: models.hub.address } } : {}) };
    [nodeRed, { context }] = await Promise.all([NodeRedWithEditor.start({ ...options, settings }), browser]);
  });
  after(async () => {
    try {
      await idle?.close();
      await nodeRed?.stop();
    } finally {
      // The process would not end while the hub listens.
      await models?.hub.close();
      if (models) rmSync(models.folder, { recursive: true, force: true });
    }
  });

  async function open(token?: string): Promise<EditorPage> {
    assert.ok(context && nodeRed, 'Node-RED and the browser run');
    const page = await context.newPage();
    await page.addInitScript(stopTransitions);
    if (!completesCode) await page.addInitScript(emptyCompleter);
    const connected = new Promise((resolve) => {
      page.on('websocket', (socket) => socket.once('framereceived', resolve));
    });
    const editor = await EditorPage.open(page, nodeRed, token);
    // From now on Node-RED sends it what it logs.
    await connected;
    return editor;
  }

  async function openEmpty(): Promise<EditorPage> {
    const editor = await open();
    assert.ok(await editor.unload(), 'nothing is open in a new page');
    return editor;
  }

  async function deploy(red: NodeRedWithEditor, flows: readonly object[]): Promise<void> {
    const text = JSON.stringify(flows);
    if (deployed?.text === text && deployed.revision === (await red.revision())) return;
    deployed = { text, revision: await red.deploy(flows) };
  }

  /** Returns a page that shows the deployed flows. */
  async function take(): Promise<EditorPage> {
    const editor = idle ?? (await openEmpty());
    // The page of a test that fails is not used again: it may hold anything.
    idle = undefined;
    await editor.load();
    return editor;
  }

  async function use(editor: EditorPage, work: Work): Promise<void> {
    await work(editor);
    assert.deepEqual(editor.problems, []);
  }

  async function useAgain(work: Work): Promise<void> {
    const editor = await take();
    let isEmpty = false;
    try {
      await use(editor, work);
      isEmpty = await editor.unload();
    } finally {
      if (isEmpty) idle = editor;
      else {
        deployed = undefined;
        await editor.close();
      }
    }
  }

  return {
    get nodeRed(): NodeRedWithEditor {
      assert.ok(nodeRed, 'Node-RED runs');
      return nodeRed;
    },
    get hub(): FakeHub {
      assert.ok(models, 'the session has a hub');
      return models.hub;
    },
    async inEditor(flows, work): Promise<void> {
      idle ??= await openEmpty();
      await deploy(this.nodeRed, flows);
      await useAgain(work);
    },
    async inDeployed(work, token): Promise<void> {
      if (!token) return useAgain(work);
      const editor = await open(token);
      await use(editor, work).finally(() => editor.close());
    },
  };
}

async function startHub(): Promise<{ readonly folder: string; readonly hub: FakeHub }> {
  const folder = mkdtempSync(join(tmpdir(), 'modelet-hub-'));
  const model = writeKnownModel(folder, KNOWN['object-detection'] as KnownModel);
  return { folder, hub: await FakeHub.start({ 'tiny/objects': model }) };
}

/** Runs in each page as it begins. Without a graphics card, painting the steps of a transition keeps a core busy. */
function stopTransitions(): void {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync('*, ::before, ::after { transition: none !important; animation: none !important; }');
  document.adoptedStyleSheets.push(sheet);
}

/**
 * Runs in each page as it begins: the worker that completes JavaScript does nothing. Not by a route: a page with routes
 * has no cache, so that it would fetch and compile the editor's scripts again.
 */
function emptyCompleter(): void {
  Worker = class extends Worker {
    constructor(url: string | URL, options?: object) {
      super(String(url).includes('/ts.worker.js') ? 'data:text/javascript,' : url, options);
    }
  };
}
