/** The W3C header `traceparent`, by which a caller says of which trace its request is a part. Pure. */

export interface TraceParent {
  /** 32 lower-case hexadecimal digits, not all 0. */
  readonly traceId: string;
  /** Of the caller's span: 16 such digits. */
  readonly spanId: string;
  /** 0 to 255; bit 0: the trace is recorded. */
  readonly flags: number;
}

const PARTS = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZEROS = /^0+$/;

/** Null for what is not a valid header. A version that is not known yet may go on behind the parts that are. */
export function parseTraceparent(header: unknown): TraceParent | null {
  const parts = typeof header === 'string' ? PARTS.exec(header) : null;
  if (!parts) return null;
  const [, version, traceId = '', spanId = '', flags = '', more] = parts;
  if (version === 'ff' || (version === '00' && more !== undefined)) return null;
  if (ZEROS.test(traceId) || ZEROS.test(spanId)) return null;
  return { traceId, spanId, flags: Number.parseInt(flags, 16) };
}
