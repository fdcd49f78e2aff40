/** The zero-cost model as a piscina task. */
export default function echo(input: unknown): unknown {
  return input;
}
