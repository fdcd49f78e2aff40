/** Decides whether inline code needs whole messages and the context stores, or the payload alone, as most code does. */
import type { MessageUse } from '../../core/whole-messages.ts';
import type { LookUp } from '../validate.ts';
import { type CodeReading, type Obstacle, readFunctionCode } from './function-code.ts';

/** Code without any of these words needs the payload alone, and is not parsed. */
const WORDS = /\b(?:msg|node|flow|global|context|env)\b/;

/** Returns what the code uses besides the payload; null: nothing. */
export function messageUseOf(code: string, outputs: number): MessageUse | null {
  if (outputs === 1 && !WORDS.test(code)) return null;
  const reading = readFunctionCode(code, 'code');
  const returns = returnsOf(reading, outputs);
  const whys = [...reading.whys];
  if (outputs > 1) whys.push(`has ${outputs} outputs`);
  if (returns === 'messages' && reading.returns.has('nothing')) whys.push('may drop messages');
  if (returns === 'messages' && isMixed(reading)) whys.push('returns several messages, or new ones');
  const [why] = whys;
  if (why === undefined) return null;
  const { properties, isWhole, sends, waits, keys, stores, writes, updates } = reading;
  const named = isWhole ? null : [...properties];
  return { why, returns, properties: named, sends, waits, keys, stores, writes, updates };
}

/**
 * Code returns messages if it returns the message that it got, has several outputs, or uses what only function nodes had
 * before; unless it takes its `input` as code of a stage does.
 */
export function returnsOf(
  { takesInput, returns, isOfFunctionNode }: CodeReading,
  outputs: number,
): MessageUse['returns'] {
  if (takesInput) return 'value';
  // Code that never returns anything is the end of a flow.
  const returnsNothing = returns.size === 1 && returns.has('nothing');
  const isOfMessages = returns.has('message') || returnsNothing || outputs > 1 || isOfFunctionNode;
  return isOfMessages ? 'messages' : 'value';
}

function isMixed({ obstacles }: CodeReading): boolean {
  return obstacles.some(({ reason }) => reason === 'returns');
}

/** The obstacles that remain in the tab Predict when a stage has the code. */
export function obstaclesIn(reading: CodeReading, code: string, outputs: number): Obstacle[] {
  if (returnsOf(reading, outputs) === 'messages') return reading.obstacles.filter(({ reason }) => reason !== 'returns');
  if (!reading.returns.has('nothing')) return [...reading.obstacles];
  const line = code.trimEnd().split('\n').length;
  return [...reading.obstacles, { tab: 'code', line, reason: 'drops', name: '' }];
}

/** Returns the variables that the code names and that a worker does not inherit from the process. */
export function variablesOf(tabs: readonly string[], lookUp: LookUp): Readonly<Record<string, unknown>> {
  const found: Record<string, unknown> = {};
  for (const text of tabs) {
    if (!/\benv\b/.test(text)) continue;
    for (const name of readFunctionCode(text, 'code').variables) {
      const value = lookUp(name);
      if (value !== undefined && value !== process.env[name]) found[name] = value;
    }
  }
  return found;
}
