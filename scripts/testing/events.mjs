// A reporter of node:test that writes one line of JSON for each test, and for each test file that runs with others.

/** @param {AsyncIterable<{ type: string, data: object }>} source */
export default async function* events(source) {
  const names = [];
  for await (const { type, data } of source) {
    if (type === 'test:start') {
      names.length = data.nesting;
      names.push(data.name);
    } else if (type === 'test:pass' || type === 'test:fail') {
      yield `${JSON.stringify(lineOf(type === 'test:pass', data, names))}\n`;
    }
  }
}

function lineOf(passed, { name, nesting, skip, todo, details }, names) {
  return {
    passed,
    path: [...names.slice(0, nesting), name],
    isSuite: details?.type === 'suite',
    // A test that fails because its parts fail says so by this code.
    isCause: details?.error?.failureType !== 'subtestsFailed',
    skipped: skip === undefined ? (todo === undefined ? undefined : 'to do') : String(skip || 'without a reason'),
    seconds: (details?.duration_ms ?? 0) / 1000,
    message: details?.error?.cause?.message ?? details?.error?.message,
  };
}
