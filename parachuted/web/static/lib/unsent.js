/**
 * Unsent: what was written here and the daemon does not have yet. It stays in this browser until the
 * daemon has it, each with an id of its own, by which it is there once however often it is sent.
 */

import { effect, signal } from '../vendor/view.js';
import { ApiError, ask, keyHeaders } from './api.js';
import { connection } from './events.js';
import { follow } from './stream.js';

const PREFIX = 'parachute.unsent.';
const DRAFTS = /^parachute\.(draft$|message\.|note\.|unsent\.)/;
const AGAIN_MS = 5_000;
const LETTERS = 'abcdefghijklmnopqrstuvwxyz0123456789';

/**
 * `problem` is why it is not sent; one that `isRefused` waits until a person tries again.
 * @typedef {{id: string, kind: 'entry' | 'message', at: number, body: Record<string, any>, wasTried: boolean, problem: string, isRefused: boolean}} Unsent
 */

/** The oldest first. */
export const unsent = signal(load());
/** What was sent last, and the conversation that it is in. */
export const delivered = signal(/** @type {{item: Unsent, session: string} | null} */ (null));
/** @type {Set<string>} ids of those that are on their way */
const underWay = new Set();

/**
 * Keeps what is to be sent. Throws where this browser has no room for it.
 * @param {Unsent['kind']} kind
 * @param {Record<string, any>} body
 * @returns {Unsent}
 */
export function addUnsent(kind, body) {
  const item = { id: newId(), kind, at: Date.now(), body, wasTried: false, problem: '', isRefused: false };
  store(item);
  return item;
}

/** @param {Unsent} item */
export function removeUnsent(item) {
  localStorage.removeItem(PREFIX + item.id);
  unsent.value = load();
}

/** Says why it is not sent. @param {Unsent} item @param {string} problem @param {boolean} isRefused */
const setProblem = (item, problem, isRefused) => { if (localStorage.getItem(PREFIX + item.id)) store({ ...item, wasTried: true, problem, isRefused }); };

/**
 * Does what sends it, once at a time, and forgets it when that has been done.
 * @param {Unsent} item
 * @param {() => Promise<string>} act answers the conversation, or nothing
 * @returns {Promise<Error | null>} why the daemon does not have it
 */
export async function deliver(item, act = () => (item.kind === 'entry' ? sendEntry(item) : sendMessage(item))) {
  if (underWay.has(item.id)) return null;
  underWay.add(item.id);
  try {
    const session = await act();
    removeUnsent(item);
    delivered.value = { item, session };
    return null;
  } catch (error) {
    const status = error instanceof ApiError ? error.status : 500;
    const { message } = /** @type {Error} */ (error);
    if (status === 0) setProblem(item, '', false);
    else setProblem(item, message, status < 500 && ![401, 408, 409, 429].includes(status));
    return /** @type {Error} */ (error);
  } finally {
    underWay.delete(item.id);
  }
}

/** Whether it is to be shown as waiting: not while it is sent for the first time. @param {Unsent} item */
export const isWaiting = (item) => item.wasTried || !underWay.has(item.id);

/** Sends all that waits, in its order, unless the daemon is away. */
export async function deliverAll() {
  for (const item of load()) {
    if (connection.peek() !== 'live') return;
    if (!item.isRefused) await deliver(item);
  }
}

/** Forgets what was written and not sent, drafts too. */
export function forgetUnsent() {
  for (const name of Object.keys(localStorage)) if (DRAFTS.test(name)) localStorage.removeItem(name);
  unsent.value = load();
}

/** How much was written and not sent, drafts too. */
export const countUnsent = () => Object.keys(localStorage).filter((name) => DRAFTS.test(name) && localStorage.getItem(name)).length;

/** @param {Unsent} item */
async function sendEntry(item) {
  await ask('POST', '/api/daily/entries', { body: { ...item.body, id: item.id } });
  return '';
}

/** Until it stands in the conversation; the turn goes on without this browser. @param {Unsent} item */
async function sendMessage(item) {
  const ended = new AbortController();
  let session = '';
  try {
    for await (const { data } of follow('/api/chat', messageRequest(item), { signal: ended.signal })) {
      const told = data ? JSON.parse(data) : {};
      session = told.sessionId || session;
      if (told.type === 'user_message') return session;
      if (told.type === 'typed_error' || told.type === 'error') throw new ApiError(422, told.message ?? told.error);
    }
  } catch (error) {
    throw error instanceof ApiError ? error : new ApiError(0, 'The daemon cannot be reached.');
  } finally {
    ended.abort();
  }
  throw new ApiError(0, 'The daemon cannot be reached.');
}

/** The request that says it. @param {Unsent} item @returns {RequestInit} */
export const messageRequest = (item) => ({
  method: 'POST',
  headers: { ...keyHeaders(), 'Content-Type': 'application/json' },
  body: JSON.stringify({ ...item.body, messageId: item.id }),
});

/** Twelve letters and digits that no other has. */
function newId() {
  const chosen = crypto.getRandomValues(new Uint32Array(12));
  return Array.from(chosen, (one) => LETTERS[one % LETTERS.length]).join('');
}

/** @param {Unsent} item */
function store(item) {
  localStorage.setItem(PREFIX + item.id, JSON.stringify(item));
  unsent.value = load();
}

/** @returns {Unsent[]} */
function load() {
  return Object.keys(localStorage).filter((name) => name.startsWith(PREFIX))
    .map((name) => JSON.parse(localStorage.getItem(name) ?? 'null')).filter(Boolean)
    .sort((one, other) => one.at - other.at);
}

effect(() => { if (connection.value === 'live') deliverAll(); });
setInterval(() => { if (unsent.peek().length) deliverAll(); }, AGAIN_MS);
addEventListener('storage', (event) => { if (event.key?.startsWith(PREFIX)) unsent.value = load(); });
