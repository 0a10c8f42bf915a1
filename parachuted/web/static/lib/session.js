/**
 * Session: who this browser is to the daemon. A key or a one-time code comes in the part of the
 * address after `#`, which browsers send to no one; it is taken out of the address at once.
 */

import { computed, signal } from '../vendor/view.js';
import { ApiError, ask, get, heldKey, holdKey, isKeyName, onRefused } from './api.js';
import { replace } from './router.js';
import { forgetSeen } from './seen.js';
import { toast } from './toasts.js';

/**
 * @typedef {{module: string, capabilities: string[], paths?: string[]}} Scope
 * @typedef {{kind: 'loopback' | 'key' | 'nobody', name: string, scopes: Scope[]}} Caller
 */

const SIGNS_IN = /^#(key|code)=([\w.-]+)$/;

/** `opening`, `open`, `closed` (a key is needed) or `unreachable`. */
export const state = signal(/** @type {'opening' | 'open' | 'closed' | 'unreachable'} */ ('opening'));
/** Why the last sign-in failed, or empty. */
export const problem = signal('');
export const caller = signal(/** @type {Caller | null} */ (null));
/** The key of a link, which waits for the person to take it; empty: none. */
export const offeredKey = signal('');
export const isOpen = computed(() => state.value === 'open');

/**
 * Whether the caller may do that in a module; the daemon decides, this only hides what would fail.
 * A key with paths sees files and nothing else.
 * @param {string} module
 * @param {'read' | 'write' | 'admin'} capability
 */
export const may = (module, capability) => {
  const scopes = caller.value?.scopes ?? [];
  return (module === 'vault' || !scopes.some((scope) => scope.paths)) && scopes.some((scope) =>
    (scope.module === '*' || scope.module === module) && scope.capabilities.includes(capability));
};

/** Signs in with what the address or this browser holds. */
export async function openSession() {
  const [name, value] = takeFromAddress();
  if (name === 'code') return signInWithCode(value);
  if (name === 'key' && value !== heldKey()) return offer(value);
  return look();
}

/**
 * Any page can link to this one, with a key that is not the person's: where they are signed in
 * already, they are asked.
 * @param {string} key
 */
async function offer(key) {
  await look();
  if (isOpen.peek() || heldKey()) offeredKey.value = key;
  else await signIn(key);
}

/** Answers the question whether the key of a link is to be used. @param {boolean} isWanted */
export async function answerOffer(isWanted) {
  const key = offeredKey.peek();
  if (isWanted) await signIn(key);
  offeredKey.value = '';
  if (isWanted && heldKey() !== key) toast(problem.peek(), { kind: 'problem' });
}

/** Signs in with a key; one that is refused does not cost the one before. @param {string} key */
export async function signIn(key) {
  const before = heldKey();
  holdKey(key.trim());
  await look();
  if (!before || (isOpen.peek() && heldKey() === key.trim())) return;
  holdKey(before);
  await look();
}

/** Forgets the key of this browser. */
export function signOut() {
  holdKey('');
  forgetSeen();
  caller.value = null;
  state.value = 'closed';
}

/** @param {string} code */
async function signInWithCode(code) {
  try {
    const made = await ask('POST', '/api/auth/codes/redeem', { body: { code, label: 'browser' } });
    holdKey(made.key);
    problem.value = '';
  } catch (error) {
    problem.value = /** @type {Error} */ (error).message;
  }
  await look();
}

/** Asks the daemon who this is. */
export async function look() {
  try {
    const found = await get('/api/auth/me');
    caller.value = found;
    if (found.kind === 'nobody') forgetSeen();
    state.value = found.kind === 'nobody' ? 'closed' : 'open';
  } catch (error) {
    const status = error instanceof ApiError ? error.status : 0;
    if (status === 401) {
      holdKey('');
      problem.value = 'This key is not valid any more.';
      return look();
    }
    if (!isOpen.peek()) state.value = 'unreachable'; // an open page stays, and says what it lost
  }
}

/** @returns {[string, string]} `key` or `code` and its value, which the address holds no longer */
function takeFromAddress() {
  const found = SIGNS_IN.exec(location.hash);
  if (!found) return ['', ''];
  replace('/');
  return [found[1], found[2]];
}

// An address that is opened in a page that is there already loads nothing again.
addEventListener('hashchange', () => {
  if (SIGNS_IN.test(location.hash)) openSession();
});

// Another tab signed in or out.
addEventListener('storage', (event) => { if (isKeyName(event.key)) look(); });

onRefused(() => {
  if (state.peek() === 'open') look();
});
