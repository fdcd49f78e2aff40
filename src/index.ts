/** The public names of the package, for modelets: a modelet needs none of them, they give its types and its errors. */
export { ERROR_CODES, type ErrorCode, HTTP_STATUS, ModeletError } from './core/errors.ts';
export { Modelet, type ModeletContext } from './worker/modelet/modelet.ts';
