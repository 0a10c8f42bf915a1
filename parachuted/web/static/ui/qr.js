/** QR: a code that the daemon made, drawn dark on light in every theme, as cameras want it. */

import { html } from '../vendor/view.js';

const QUIET = 4; // squares of margin that the standard asks for

/** @param {{rows: string[], label: string}} props */
export function Qr({ rows, label }) {
  const size = rows.length + 2 * QUIET;
  const path = rows.flatMap((row, y) => [...row].map((one, x) => (one === '1' ? `M${x + QUIET} ${y + QUIET}h1v1h-1z` : ''))).join('');
  return html`
    <svg class="qr" viewBox=${`0 0 ${size} ${size}`} role="img" aria-label=${label} shape-rendering="crispEdges">
      <rect width=${size} height=${size} fill="#ffffff" /><path d=${path} fill="#000000" />
    </svg>`;
}
