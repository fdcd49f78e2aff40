/** Begins the sidebar: what is wrong in sentences with the buttons that help, and where items spend the most time. */
import { duration } from './figures.js';
import { el, list, said, setKind, setShown, setText, setTitle, smallButton, text, textButton } from './sidebar-dom.js';
import { giveRuntimeToAll } from './stage-runtime.js';

/** Number of sentences after the first that are never folded away: the stages have to stay in sight. */
const UNFOLDED = 1;

/** A sentence that leads to its node, and its buttons. */
function makeFinding(context, className) {
  let shown = { node: null };
  const sentence = textButton(className, '', () => shown.node !== null && context.reveal(shown.node));
  const buttons = el('div', 'finding-actions');
  const element = el('div', 'finding', sentence, buttons);
  const showButtons = list(buttons, ({ kind }) => kind, makeAction(context));
  const update = (finding) => {
    shown = finding;
    setKind(element, finding.kind);
    setText(sentence, said(finding.text));
    setTitle(sentence, finding.node === null ? '' : text('verdict.reveal'));
    showButtons(finding.actions.filter((action) => mayDo(context, action)));
    setShown(buttons, buttons.childElementCount > 0);
  };
  return { element, update };
}

/** Whether the user of the editor may press a button: some change the flows, others the runtime. */
function mayDo(context, { kind }) {
  return kind === 'restart' || kind === 'seen' ? context.mayAct() : RED.user.hasPermission('flows.write');
}

function makeAction(context) {
  return ({ kind }) => {
    let shown;
    const element = smallButton('finding-action', text(`finding.${kind}`), () => perform(context, shown));
    const update = (action) => {
      shown = action;
    };
    return { element, update };
  };
}

function perform(context, { kind, node }) {
  if (kind === 'restart') context.act(node, 'restart');
  else if (kind === 'seen') context.seen();
  else if (kind === 'limit') context.edit(node, 'runTimeoutMs');
  else createRuntime();
}

function createRuntime() {
  const count = giveRuntimeToAll();
  RED.notify(text('finding.createRuntimeDone', { count }), 'success');
}

function listFindings(context, parent) {
  // A node may have several findings of a kind, and their numbers change while a user looks.
  const keyOf = ({ kind, node, text: sentence }) => `${kind} ${node} ${sentence.replaceAll(/\d+/g, '')}`;
  return list(parent, keyOf, () => makeFinding(context, 'finding-text'));
}

export function makeVerdict(context) {
  const first = makeFinding(context, 'verdict-text');
  const others = el('div', 'findings');
  const summary = el('summary');
  const folded = el('div', 'findings');
  const more = el('details', 'more', summary, folded);
  // The slowest stage's node in the view on display: the button leads to it.
  let slowestNode = null;
  const slowest = textButton('verdict-slowest', '', () => context.reveal(slowestNode));
  const element = el('div', 'verdict', first.element, others, more, slowest);
  const showOthers = listFindings(context, others);
  const showFolded = listFindings(context, folded);
  const update = ({ verdict, slowestStage, runtimes }) => {
    slowestNode = slowestStage;
    setKind(element, verdict.kind);
    first.update(verdict);
    const rest = verdict.others.slice(UNFOLDED);
    showOthers(verdict.others.slice(0, UNFOLDED));
    showFolded(rest);
    setText(summary, text('verdict.more', { count: rest.length }));
    setShown(others, verdict.others.length > 0);
    setShown(more, rest.length > 0);
    const stage = runtimes.flatMap(({ stages }) => stages).find(({ id }) => id === slowestStage);
    setShown(slowest, stage !== undefined);
    if (stage) setText(slowest, describeSlowest(stage));
  };
  return { element, update };
}

// Names of users are not interpolated, because i18next would escape them.
function describeSlowest({ name, times }) {
  const parts = [
    text('verdict.queue', { time: duration(times.queueMs) }),
    text('verdict.batch', { time: duration(times.batchMs) }),
    text('verdict.run', { time: duration(times.runMs) }),
  ];
  const shown = parts.filter((_, index) => index === 2 || [times.queueMs, times.batchMs][index] >= 0.05);
  return `${text('verdict.slowest')} ${name}: ${shown.join(', ')}`;
}
