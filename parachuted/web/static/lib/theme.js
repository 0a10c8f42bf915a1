/** Theme: light, dark, or as the system is; kept in this browser. */

import { signal } from '../vendor/view.js';

const NAME = 'parachute.theme';

/** @typedef {'system' | 'light' | 'dark'} Theme */
export const theme = signal(/** @type {Theme} */ (localStorage.getItem(NAME) ?? 'system'));

/** Shows the page in the chosen theme. */
export function startTheme() {
  document.documentElement.dataset.theme = theme.peek();
}

/** @param {Theme} chosen */
export function chooseTheme(chosen) {
  theme.value = chosen;
  localStorage.setItem(NAME, chosen);
  startTheme();
}
