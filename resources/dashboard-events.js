/**
 * The events of the dashboard: one request, whose answer does not end. It bears the token of the editor's login, which an
 * `EventSource` cannot. It ends while the page is hidden, and begins anew when the page is seen or the connection breaks.
 */

const RETRY_MS = 2000;

/** The token of the account that is logged in to the editor of this Node-RED; null without a login. */
function token() {
  // As the editor names it: by its own path, without the last slash.
  const editor = location.pathname.replace(/\/modelets\/dashboard$/, '');
  return JSON.parse(localStorage.getItem(`auth-tokens${editor.replaceAll('/', '-')}`))?.access_token ?? null;
}

/** Calls `take` for each event until the answer ends. */
async function read(body, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split('\n\n');
    rest = events.pop();
    for (const event of events) take(JSON.parse(event.slice('data: '.length)));
  }
}

/**
 * @param address returns where the events are
 * @param on `event(event)`; `state(state)`, which is `live`, `lost`, `login` or `forbidden`
 * @returns a function that begins anew, at another address
 */
export function listen(address, on) {
  /** The request; null: none, because the page is hidden. */
  let request = null;
  let timer;

  /** Gives events until the answer ends. Returns the state after it. */
  async function follow(signal) {
    const known = token();
    const headers = known === null ? {} : { Authorization: `Bearer ${known}` };
    try {
      const response = await fetch(address(), { headers, signal, cache: 'no-store' });
      if (response.status === 401 || response.status === 403) return known === null ? 'login' : 'forbidden';
      if (!response.ok) return 'lost';
      on.state('live');
      await read(response.body, on.event);
      return 'ended';
    } catch {
      // The next try shows whether the fault is gone.
    }
    return 'lost';
  }

  async function connect() {
    stop();
    if (document.hidden) return;
    const current = new AbortController();
    request = current;
    const state = await follow(current.signal);
    if (request !== current) return;
    if (state === 'ended') void connect();
    else on.state(state);
    if (state === 'lost') timer = setTimeout(connect, RETRY_MS);
  }

  function stop() {
    clearTimeout(timer);
    request?.abort();
    request = null;
  }

  document.addEventListener('visibilitychange', () => void (document.hidden ? stop() : connect()));
  // Another tab of this browser has logged in.
  window.addEventListener('storage', ({ key }) => {
    if (key?.startsWith('auth-tokens')) void connect();
  });
  void connect();
  return connect;
}
