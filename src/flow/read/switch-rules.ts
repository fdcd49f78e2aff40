/**
 * Reads the rules of a switch node, as far as the engine can follow them: it knows only the payload, sends an item one
 * way, and loses none. All other switch nodes stay in Node-RED. Pure.
 */
import { CHOICE_OPERATORS, type ChoiceOperator, type ChoiceRule, type RuleValue } from '../../core/routes/route.ts';
import type { SwitchNode } from '../graph.ts';
import type { Definition, WiredNode } from './running-nodes.ts';

/** A rule as Node-RED has it. The type of a value is absent in old flows. */
interface RawRule {
  readonly t?: string;
  readonly v?: unknown;
  readonly vt?: string;
  readonly v2?: unknown;
  readonly v2t?: string;
}

/** The running node has its variables replaced, but does not tell of `repair`. */
type RunningSwitch = WiredNode & {
  readonly property?: unknown;
  readonly propertyType?: string;
  readonly rules?: readonly RawRule[];
  readonly checkall?: string;
};

/** A property of the payload: names after dots, and indexes or quoted names in brackets. */
const PROPERTY = /^payload(?:\.[\w$-]+|\[\d+\]|\[(["'])[^"'\]]*\1\])*$/;
const PART = /\.([\w$-]+)|\[(\d+)\]|\[["']([^"'\]]*)["']\]/g;

const OPERATORS: ReadonlySet<string | undefined> = new Set(CHOICE_OPERATORS);
const WITHOUT_VALUE: ReadonlySet<ChoiceOperator> = new Set([
  'true',
  'false',
  'null',
  'nnull',
  'empty',
  'nempty',
  'else',
]);

export function readSwitch(node: RunningSwitch, definition: Definition): Pick<SwitchNode, 'path' | 'rules' | 'fault'> {
  const { property, propertyType = 'msg', rules = [], checkall = 'true' } = node;
  const refused = (fault: string): ReturnType<typeof readSwitch> => ({ path: [], rules: [], fault });
  if (propertyType !== 'msg' || typeof property !== 'string' || !PROPERTY.test(property))
    return refused('it looks at something else than the payload');
  if ((definition as { readonly repair?: unknown }).repair === true) return refused('it renumbers sequences');
  const read = rules.map(readRule);
  const unreadable = read.find((rule) => typeof rule === 'string');
  if (typeof unreadable === 'string') return refused(unreadable);
  const usable = read as readonly ChoiceRule[];
  const last = usable.at(-1);
  if (last?.operator !== 'else')
    return refused('it drops messages that match no rule: let its last rule be "otherwise"');
  if (checkall !== 'false' && !areExclusive(usable.slice(0, -1)))
    return refused('it may send a message to several outputs: let it stop after the first match');
  const path = [...property.matchAll(PART)].map(([, name, index, quoted]) => name ?? index ?? quoted ?? '');
  return { path, rules: usable, fault: null };
}

/** Returns the rule, or the reason why only Node-RED can apply it. */
function readRule({ t, v, vt, v2, v2t }: RawRule): ChoiceRule | string {
  if (!OPERATORS.has(t)) return `only Node-RED knows its rule "${t}"`;
  const operator = t as ChoiceOperator;
  if (WITHOUT_VALUE.has(operator)) return { operator, value: null, limit: null };
  if (operator === 'istype') {
    const type = vt === 'json' || vt === 'null' ? vt : String(v);
    return { operator, value: type, limit: null };
  }
  const value = constant(v, vt);
  const limit = operator === 'btwn' ? constant(v2, v2t) : null;
  if (value === undefined || limit === undefined) return 'its rules compare with more than constants';
  return { operator, value, limit };
}

/** Returns the value of a rule as Node-RED would evaluate it; undefined if that takes more than the rule. */
function constant(value: unknown, type = Number.isNaN(Number(value)) ? 'str' : 'num'): RuleValue | undefined {
  if (type === 'str') return String(value);
  if (type === 'num') return Number(value);
  return type === 'bool' ? /^true$/i.test(String(value)) : undefined;
}

/** Whether no value matches two of the rules. */
function areExclusive(rules: readonly ChoiceRule[]): boolean {
  const values = rules.map(onlyMatch);
  return values.every((one, at) => {
    return one !== undefined && values.slice(0, at).every((other) => other !== undefined && !mayBeEqual(one, other));
  });
}

/** Returns the only value that matches a rule; undefined if there may be several. */
function onlyMatch({ operator, value }: ChoiceRule): RuleValue | undefined {
  if (operator === 'eq') return value;
  if (operator === 'true' || operator === 'false') return operator === 'true';
  return operator === 'null' ? null : undefined;
}

/** Whether one value may equal both. Node-RED compares loosely: the number 1 equals the texts `1` and `1.0`. */
function mayBeEqual(one: RuleValue, other: RuleValue): boolean {
  if (one === null || other === null) return one === other;
  return one === other || Number(one) === Number(other);
}
