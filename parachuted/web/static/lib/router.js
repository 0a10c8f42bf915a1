/** Router: the part of the address after `#` says which screen is shown, and of what. */

import { computed, signal } from '../vendor/view.js';

const hash = signal(location.hash);
addEventListener('hashchange', () => { hash.value = location.hash; });

/** What is shown: `screen`, the parts after it, and the query. */
export const route = computed(() => {
  const [path, query] = hash.value.replace(/^#\/?/, '').split('?');
  const [screen, ...rest] = path.split('/').map(decoded);
  return { screen, rest, query: new URLSearchParams(query ?? '') };
});

/**
 * The address of a screen, for a link.
 * @param {string} screen
 * @param {string[]} [rest]
 * @param {Record<string, string>} [query]
 */
export function address(screen, rest = [], query = {}) {
  const pairs = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
  const asked = pairs.toString();
  return `#/${[screen, ...rest].map(encodeURIComponent).join('/')}${asked ? `?${asked}` : ''}`;
}

/**
 * The address of a note.
 * @param {string} path
 * @param {Record<string, string>} [query]
 */
export const noteAddress = (path, query) => address('vault', path.split('/'), query);

/** Shows another screen. @param {string} to an address */
export function go(to) {
  if (location.hash !== to) location.hash = to;
}

/** Shows another screen in place of this one, so that Back does not return here. @param {string} to */
export function replace(to) {
  history.replaceState(null, '', to);
  hash.value = location.hash;
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
