/** The error of all formats. The server shows its message, and the editor its own text for the reason. */

export interface Unreadable extends Error {
  /** Key of the editor's text: `<node type>.error.<reason>`. */
  readonly reason: string;
  /** Values that the editor's text names. */
  readonly values: Readonly<Record<string, string | number>>;
}

export function unreadable(message: string, reason: string, values: Unreadable['values'] = {}): Unreadable {
  return Object.assign(new Error(message), { reason, values });
}
