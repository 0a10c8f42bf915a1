/** Words: a sentence of the daemon, with what stands between backquotes shown as code. */

import { html } from '../vendor/view.js';

/** @param {{text: string}} props */
export const Words = ({ text }) => html`${text.split(/`([^`]+)`/).map((part, at) => (at % 2 ? html`<code>${part}</code>` : part))}`;
