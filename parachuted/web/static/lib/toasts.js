/** Toasts: short messages at the edge of the page, with something to do about them. */

import { signal } from '../vendor/view.js';

/** @typedef {{id: number, text: string, kind: 'done' | 'problem', action?: string, act?: () => void}} Toast */
export const toasts = signal(/** @type {Toast[]} */ ([]));
const STAYS_MS = 8_000;
let count = 0;

/**
 * Shows a message; one with something to do, or about a problem, stays longer.
 * @param {string} text
 * @param {{kind?: Toast['kind'], action?: string, act?: () => void}} [more]
 */
export function toast(text, more = {}) {
  const id = (count += 1);
  toasts.value = [...toasts.value.slice(-3), { id, text, kind: 'done', ...more }];
  setTimeout(() => dismiss(id), more.act || more.kind === 'problem' ? 2 * STAYS_MS : STAYS_MS);
}

/** Shows what went wrong. @param {unknown} error */
export const toastProblem = (error) => toast(/** @type {Error} */ (error).message, { kind: 'problem' });

/** @param {number} id */
export function dismiss(id) {
  toasts.value = toasts.value.filter((one) => one.id !== id);
}
