/**
 * Module page: the page that a module brings, in a frame without an origin, of trusted modules too. It cannot
 * see this page, its key or the network; it may ask this page for GET and POST of its own module's routes.
 */

import { html, useEffect, useRef } from '../../vendor/view.js';
import { ApiError, ask, send, straight } from '../../lib/api.js';
import { useLoad } from '../../lib/load.js';
import { t } from '../../lib/strings.js';
import { Empty, Shown } from '../../ui/parts.js';

const SHELL = new URL('../../frame.html', import.meta.url).pathname;
const MOST_BODY = 1_000_000; // characters of JSON
const MOST_AT_ONCE = 20;

/** @param {{of: any}} props the module */
export function ModulePage({ of }) {
  const page = useLoad(async (signal) => (of.pages ? (await send('GET', of.pages, { signal })).text() : null), [of.pages, of.hash]);
  return html`<${Shown} of=${page}>${(/** @type {string | null} */ text) => (text === null
    ? html`<${Empty}>${t.modules.noPage}<//>`
    : html`<p class="soft">${t.modules.pageWhy(of.name)}</p><${Frame} key=${of.hash} of=${of} text=${text} />`)}<//>`;
}

/** @param {{of: any, text: string}} props */
function Frame({ of, text }) {
  const place = useRef(/** @type {HTMLIFrameElement | null} */ (null));
  useEffect(() => {
    const channel = new MessageChannel();
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const theme = () => {
      const chosen = document.documentElement.dataset.theme;
      return chosen === 'dark' || (chosen !== 'light' && dark.matches) ? 'dark' : 'light';
    };
    const begin = (/** @type {MessageEvent} */ event) => {
      if (event.source !== place.current?.contentWindow || event.data !== 'ready') return;
      removeEventListener('message', begin); // the frame gets one port, whatever it shows later
      serve(channel.port1, of);
      place.current?.contentWindow?.postMessage({ html: text, theme: theme() }, '*', [channel.port2]);
    };
    const tell = () => channel.port1.postMessage({ theme: theme() });
    const look = new MutationObserver(tell);
    look.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    dark.addEventListener('change', tell);
    addEventListener('message', begin);
    return () => {
      removeEventListener('message', begin);
      dark.removeEventListener('change', tell);
      look.disconnect();
      channel.port1.close();
    };
  }, []);
  return html`<iframe class="module-page" title=${t.modules.pageOf(of.name)} sandbox="allow-scripts" referrerpolicy="no-referrer" allow="" src=${SHELL} ref=${place}></iframe>`;
}

/** Answers what the frame asks, as far as it may. @param {MessagePort} port @param {any} of */
function serve(port, of) {
  let going = 0;
  port.onmessage = async ({ data }) => {
    const id = data?.id;
    if (!Number.isInteger(id)) return;
    going += 1;
    try {
      if (going > MOST_AT_ONCE) throw new ApiError(429, t.modules.tooMany);
      port.postMessage({ id, answer: await answerOf(of, data) });
    } catch (error) {
      port.postMessage({ id, error: /** @type {Error} */ (error).message, status: error instanceof ApiError ? error.status : 0 });
    } finally {
      going -= 1;
    }
  };
}

/** @param {any} of @param {{method: unknown, path: unknown, body: unknown}} asked */
async function answerOf(of, { method, path, body }) {
  if (method === 'FILE') return (await send('GET', within(of.pages, path))).text();
  if (method !== 'GET' && method !== 'POST') throw new ApiError(405, t.modules.onlyOwn);
  const text = method === 'POST' ? JSON.stringify(body ?? {}) : undefined;
  if (text && text.length > MOST_BODY) throw new ApiError(413, t.modules.tooLarge);
  return ask(method, within(`${of.prefix}/`, path), { body: text });
}

/** That path below the prefix, and nowhere else. Throws ApiError. @param {string} prefix ends with a slash @param {unknown} path */
function within(prefix, path) {
  if (typeof path !== 'string' || path.length > 4_000 || /[\\\0-\x1f]|%5c|%00/i.test(path)) throw new ApiError(403, t.modules.onlyOwn);
  const place = prefix + path.replace(/^\/+/, '');
  const { origin, pathname, hash } = new URL(place, location.origin);
  const names = pathname.replace(/%2f/gi, '/').replace(/%2e/gi, '.').split('/');
  if (origin !== location.origin || hash || !pathname.startsWith(prefix) || names.includes('..') || names.includes('.')) throw new ApiError(403, t.modules.onlyOwn);
  return straight(place);
}
