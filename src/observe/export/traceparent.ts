/** Parses the W3C header `traceparent`, in which a caller names the trace of its request. Pure. */

export interface TraceParent {
  /** 32 lower-case hexadecimal digits, not all 0. */
  readonly traceId: string;
  /** Id of the caller's span: 16 lower-case hexadecimal digits, not all 0. */
  readonly spanId: string;
  /** 0 to 255; bit 0 is set if the trace is recorded. */
  readonly flags: number;
}

const PARTS = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZEROS = /^0+$/;

/** Returns null if the header is not valid. A future version may append further parts to the known ones. */
export function parseTraceparent(header: unknown): TraceParent | null {
  const parts = typeof header === 'string' ? PARTS.exec(header) : null;
  if (!parts) return null;
  const [, version, traceId = '', spanId = '', flags = '', more] = parts;
  if (version === 'ff' || (version === '00' && more !== undefined)) return null;
  if (ZEROS.test(traceId) || ZEROS.test(spanId)) return null;
  return { traceId, spanId, flags: Number.parseInt(flags, 16) };
}
