/** Diff: lines that were added and removed, by colour and by sign. */

import { html } from '../vendor/view.js';
import { around, diffLines } from '../lib/diff.js';
import { t } from '../lib/strings.js';

const SIGNS = { added: '+', removed: '-', same: ' ' };

/** Between two texts. @param {{before: string, after: string, label?: string}} props */
export function Diff({ before, after, label = t.app.diff }) {
  const lines = around(diffLines(before, after));
  if (!lines.length) return html`<p class="soft">${t.app.noDiff}</p>`;
  return html`<pre class="diff" tabindex="0" role="region" aria-label=${label}>${lines.map((line) => line
    ? html`<span class=${line.kind}>${SIGNS[line.kind]} ${line.text}</span>`
    : html`<span class="place">…</span>`)}</pre>`;
}

/** As the daemon tells it: a unified diff. @param {{text: string, label?: string}} props */
export const UnifiedDiff = ({ text, label = t.app.diff }) => html`
  <pre class="diff" tabindex="0" role="region" aria-label=${label}>${text.replace(/\n$/, '').split('\n').filter((line) => !/^(---|\+\+\+) /.test(line)).map((line) => html`
    <span class=${kindOf(line)}>${line}</span>`)}</pre>`;

/** @param {string} line */
const kindOf = (line) => (line.startsWith('@@') ? 'place' : line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : '');
