/** Shows the two ways to fail: refusing an input, and being broken. */
/**
 * @param {{ number: number }} input
 * @returns {number}
 */
export default function squareRoot(input, _ctx) {
  const number = input?.number;
  if (typeof number !== 'number' || number < 0) {
    // The code makes it the caller's mistake (422), and the request's own: the others in its batch go on.
    const error = new Error(`number must be 0 or more, got ${JSON.stringify(number) ?? 'none'}`);
    throw Object.assign(error, { code: 'invalid_input' });
  }
  // Any other error is the modelet's own (500); its worker lives on.
  if (number === 13) throw new Error('this modelet is afraid of 13');
  return Math.sqrt(number);
}
