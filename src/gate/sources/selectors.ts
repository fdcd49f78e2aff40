/**
 * Finds the selectors in a PromQL expression, which name the series that it reads.
 *
 * Does not validate: text that is not PromQL gives wrong selectors, and the server rejects them.
 */

/** An unclosed string extends to the end of the text, so that matching never backtracks over the same text. */
const TOKEN =
  /\s+|#[^\n]*|(?<name>[a-zA-Z_:][\w:]*)|(?<string>"(?:[^"\\]|\\[\s\S]?)*(?:"|$)|'(?:[^'\\]|\\[\s\S]?)*(?:'|$)|`[^`]*(?:`|$))|\d[\w.]*|(?<sign>\S)/gy;

/** Words between operands; the words of the second set are followed by a list of labels. */
const OPERATORS = new Set(['and', 'or', 'unless', 'atan2', 'bool', 'offset', 'inf', 'nan']);
const LABEL_LISTS = new Set(['by', 'without', 'on', 'ignoring', 'group_left', 'group_right']);

interface Token {
  readonly kind: 'name' | 'string' | 'sign';
  readonly text: string;
}

/** Returns each selector once, without its range: `up{job="a"}` for `sum by (job) (rate(up{job="a"}[1m]))`. */
export function selectorsOf(expression: string): string[] {
  const tokens = tokensOf(expression);
  const found = new Set<string>();
  for (let at = 0; at < tokens.length; ) {
    const part = partAt(tokens, at);
    if (part.isSelector) found.add(textOf(tokens, at, part.end));
    at = part.end + 1;
  }
  return [...found];
}

/** Returns the part that begins at a token: a selector, or a part to skip that contains none. */
function partAt(tokens: readonly Token[], at: number): { readonly end: number; readonly isSelector: boolean } {
  const token = tokens[at] as Token;
  const next = tokens[at + 1];
  if (isSign(token, '[')) return { end: endOf(tokens, at, ']'), isSelector: false };
  if (isSign(token, '{')) return { end: endOf(tokens, at, '}'), isSelector: true };
  if (token.kind !== 'name') return { end: at, isSelector: false };
  if (LABEL_LISTS.has(token.text.toLowerCase())) {
    return { end: isSign(next, '(') ? endOf(tokens, at + 1, ')') : at, isSelector: false };
  }
  if (!isMetric(token.text, next)) return { end: at, isSelector: false };
  return { end: isSign(next, '{') ? endOf(tokens, at + 1, '}') : at, isSelector: true };
}

function tokensOf(expression: string): Token[] {
  const tokens: Token[] = [];
  for (const { groups: { name, string, sign } = {} } of expression.matchAll(TOKEN)) {
    if (name !== undefined) tokens.push({ kind: 'name', text: name });
    else if (string !== undefined) tokens.push({ kind: 'string', text: string });
    else if (sign !== undefined) tokens.push({ kind: 'sign', text: sign });
  }
  return tokens;
}

/** Whether a name is a metric: not an operator, nor a function or aggregation (followed by a bracket or labels). */
function isMetric(name: string, next: Token | undefined): boolean {
  if (OPERATORS.has(name.toLowerCase()) || isSign(next, '(')) return false;
  return !(next?.kind === 'name' && ['by', 'without'].includes(next.text.toLowerCase()));
}

function isSign(token: Token | undefined, text: string): boolean {
  return token?.kind === 'sign' && token.text === text;
}

/** Returns the index of the token that closes the bracket at `start`; the last token if none does. */
function endOf(tokens: readonly Token[], start: number, close: string): number {
  let end = start + 1;
  while (end < tokens.length && !isSign(tokens[end], close)) end += 1;
  return Math.min(end, tokens.length - 1);
}

function textOf(tokens: readonly Token[], start: number, end: number): string {
  return tokens
    .slice(start, end + 1)
    .map(({ text }) => text)
    .join('');
}
