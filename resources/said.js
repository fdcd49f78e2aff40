/**
 * Says in the language of the editor what Node-RED says in English: badges, the sidebar's sentences, faults of the wiring.
 * The table of a language, `said/LANGUAGE.json`, has each sentence with its parts in braces: `{name}` is any text, `{#name}`
 * a number with or without a unit, `{*name}` a sentence of the table, `{@name}` a part that never stands alone, such as the kind
 * of a node with its name: these begin with `@` in the table. Names, and messages of users' code, stay as they are, like any
 * sentence that the table lacks. Attaches `window.modelet.said` and, for the dashboard, `window.modelet.learn`; safe to load
 * more than once.
 */
(() => {
  'use strict';

  window.modelet ??= {};
  if (window.modelet.said) return;

  const PACKAGE = '@modelet/node-red-pipeline';
  const LANGUAGES = ['zh-CN'];
  const KINDS = 'runtime broker keys stage batcher gate collector join stream feed metrics view';
  const TYPES = KINDS.split(' ').map((kind) => `modelet-${kind}`);
  const PART = /\{([#*@]?)(\w+)\}/g;
  const FORMS = { '': '(.+?)', '#': '([\\d.]+(?: (?:ms|s|min|MB))?)', '*': '(.+?)', '@': '(.+?)' };
  /** Between clauses. `least`: how many sides the table must have. Names may have commas. */
  const JOINTS = [
    { joint: '\n', said: '\n', least: 1 },
    { joint: '. ', said: '。', least: 1 },
    { joint: '; ', said: '；', least: 1 },
    { joint: ': ', said: '：', least: 1 },
    { joint: ', ', said: '，', least: 2 },
  ];
  const MOST_KNOWN = 1000;
  /** Longer texts are messages of users' code. */
  const LONGEST = 600;

  let table = [];
  let rules = [];
  const known = new Map();

  function makeRule([english, said]) {
    const parts = [...english.matchAll(PART)];
    const fixed = english.split(/\{[#*@]?\w+\}/);
    const escaped = fixed.map((text) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'));
    const pattern = escaped.reduce((all, text, index) => `${all}${FORMS[parts[index - 1][1]]}${text}`);
    return {
      pattern: new RegExp(`^${pattern}$`, 's'),
      parts: parts.map(([, sign, name]) => ({ sign, name })),
      said,
      weight: fixed.join('').length,
    };
  }

  function byRule(text) {
    for (const { pattern, parts, said } of rules) {
      const found = pattern.exec(text);
      if (!found) continue;
      const values = parts.map(({ sign, name }, index) => {
        const value = found[index + 1];
        if (sign === '@') return [name, translate(`@${value}`) ?? translate(value) ?? value];
        return [name, sign === '*' ? (translate(value) ?? value) : value];
      });
      const named = Object.fromEntries(values);
      return said.replaceAll(/\{(\w+)\}/g, (_all, name) => named[name]);
    }
    return null;
  }

  function divided(text, { joint, said, least }) {
    const at = text.indexOf(joint);
    if (at < 0) return null;
    const sides = [text.slice(0, at), text.slice(at + joint.length)];
    const translated = sides.map(translate);
    if (translated.filter((side) => side !== null).length < least) return null;
    return sides.map((side, index) => translated[index] ?? side).join(said);
  }

  function byClauses(text) {
    for (const joint of JOINTS) {
      const said = divided(text, joint);
      if (said !== null) return said;
    }
    return null;
  }

  /** Returns null for a text of which the table knows nothing. */
  function translate(text) {
    if (known.has(text)) return known.get(text);
    if (known.size >= MOST_KNOWN) known.clear();
    const said = text.length > LONGEST ? null : (byRule(text) ?? byClauses(text));
    known.set(text, said);
    return said;
  }

  window.modelet.said = (text) => (rules.length > 0 && typeof text === 'string' ? (translate(text) ?? text) : text);

  function isOurs(node) {
    return node?.type.startsWith('modelet-');
  }

  /** Node-RED sends of a badge only its text. */
  function translateBadge(node, status) {
    if (!isOurs(node) || !status?.text) return;
    const text = window.modelet.said(status.text);
    if (text === status.text) return;
    status.text = text;
    if (node.status !== status) return;
    node.dirtyStatus = true;
    RED.view.redrawStatus(node);
  }

  /** The labels of the dialogs: a fault of a setting begins with its label. The dashboard has no dialogs. */
  function labels(language) {
    if (!globalThis.RED) return [];
    return TYPES.flatMap((type) => {
      const [english, said] = ['en-US', language].map(
        (one) => i18next.getResourceBundle(one, `${PACKAGE}/${type}`)?.[type]?.label ?? {},
      );
      return Object.entries(english).map(([name, label]) => [label, said[name] ?? label]);
    });
  }

  function begin(language) {
    rules = [...table, ...labels(language)].map(makeRule).sort((a, b) => b.weight - a.weight);
    known.clear();
    globalThis.RED?.nodes.eachNode((node) => translateBadge(node, node.status));
  }

  /** Reads the table of a language from a folder. Returns whether there is one. */
  window.modelet.learn = async (language, folder) => {
    if (!LANGUAGES.includes(language)) return false;
    const response = await fetch(`${folder}/${language}.json`);
    table = Object.entries(await response.json());
    begin(language);
    return true;
  };

  async function load() {
    const language = localStorage.getItem('editor-language') || RED.i18n.lang();
    if (!(await window.modelet.learn(language, `resources/${PACKAGE}/said`))) return;
    // The catalogs of the nodes come later than this plugin.
    RED.events.on('flows:loaded', () => begin(language));
    RED.comms.subscribe('status/#', (topic, status) => translateBadge(RED.nodes.node(topic.split('/')[1]), status));
  }

  // Without the table the editor stays English.
  if (globalThis.RED) load().catch(() => undefined);
})();
