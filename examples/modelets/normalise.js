/** Checks an 8x8 image of a digit and scales its pixels to what the network was trained on. */
const PIXELS = 64;
const PIXEL_MAX = 16;

/**
 * @param {{ image: number[] }} input
 * @returns {Float32Array} the 64 pixels, 0..1
 */
export default function normalise(input, _ctx) {
  const image = input?.image;
  if (!Array.isArray(image)) throw invalid(image === undefined ? 'no image' : 'something that is not an array');
  if (image.length !== PIXELS) throw invalid(`${image.length} numbers`);

  const scaled = new Float32Array(PIXELS);
  for (let at = 0; at < PIXELS; at += 1) {
    const pixel = image[at];
    // Float32Array would turn '7', null and true into numbers without a word, hence the check of the type.
    if (typeof pixel !== 'number') throw invalid(`a value of type ${typeof pixel} at index ${at}`);
    // Written so that NaN, which compares false with everything, is refused too.
    if (!(pixel >= 0 && pixel <= PIXEL_MAX)) throw invalid(`${pixel} at index ${at}`);
    scaled[at] = pixel / PIXEL_MAX;
  }
  return scaled;
}

/** The code makes the runtime answer 422, the caller's mistake, instead of 500. */
function invalid(got) {
  const error = new Error(`image must be ${PIXELS} numbers from 0 to ${PIXEL_MAX}, got ${got}`);
  return Object.assign(error, { code: 'invalid_input' });
}
