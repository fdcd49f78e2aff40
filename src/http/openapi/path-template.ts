/** Converts paths of Express to paths of OpenAPI: `/digits/:id` becomes `/digits/{id}`. Pure. */

export interface PathParameter {
  readonly name: string;
  /** Regular expression for the whole value; null: any text without a slash. */
  readonly pattern: string | null;
}

export interface PathTemplate {
  readonly path: string;
  readonly parameters: readonly PathParameter[];
}

/** One template for each way to omit optional parameters; or the reason why that is impossible. */
export type Templates = readonly PathTemplate[] | { readonly why: string };

interface TemplatePart {
  readonly text: string;
  readonly parameter: PathParameter | null;
  readonly optional: boolean;
}

const MOST_OPTIONAL = 3;
const PARAMETER = /(\/)?:(\w+)(\([^()]*\))?([?*+])?/g;
/** Characters with a meaning in Express or OpenAPI. */
const SPECIAL = /[*+?()[\]{}|\\^$#]/;

export function templatesOf(url: string): Templates {
  const parts = partsOf(url.startsWith('/') ? url : `/${url}`);
  if (!parts) return { why: 'its path is a pattern that OpenAPI cannot say' };
  const names = parts.flatMap(({ parameter }) => (parameter ? [parameter.name] : []));
  if (new Set(names).size < names.length) return { why: 'its path has a parameter twice' };
  const optional = parts.filter((part) => part.optional);
  if (optional.length > MOST_OPTIONAL) return { why: `its path has more than ${MOST_OPTIONAL} optional parameters` };
  const templates = Array.from({ length: 2 ** optional.length }, (_, choice) =>
    templateOf(parts.filter((part) => !part.optional || (choice >> optional.indexOf(part)) & 1)),
  );
  // An omitted parameter takes its slash with it, so the rest of the path may begin without one.
  return templates.filter(({ path }) => path.startsWith('/'));
}

/** Splits a path into parts. Returns null for a pattern that has no template. */
function partsOf(path: string): TemplatePart[] | null {
  const parts: TemplatePart[] = [];
  let from = 0;
  const literal = (to: number): void => {
    parts.push({ text: path.slice(from, to), parameter: null, optional: false });
  };
  for (const match of path.matchAll(PARAMETER)) {
    const [whole, slash = '', name = '', group, suffix] = match;
    if (suffix === '*' || suffix === '+') return null;
    literal(match.index);
    const pattern = group === undefined ? null : `^(?:${group.slice(1, -1)})$`;
    parts.push({ text: `${slash}{${name}}`, parameter: { name, pattern: usable(pattern) }, optional: suffix === '?' });
    from = match.index + whole.length;
  }
  literal(path.length);
  return parts.some(({ text, parameter }) => !parameter && SPECIAL.test(text)) ? null : parts;
}

/** Returns the pattern, or null if it is invalid in Unicode mode, which JSON Schema uses. */
function usable(pattern: string | null): string | null {
  if (pattern === null) return null;
  try {
    new RegExp(pattern, 'u');
    return pattern;
  } catch {
    return null;
  }
}

function templateOf(parts: readonly TemplatePart[]): PathTemplate {
  return {
    path: parts.map(({ text }) => text).join('') || '/',
    parameters: parts.flatMap(({ parameter }) => (parameter ? [parameter] : [])),
  };
}
