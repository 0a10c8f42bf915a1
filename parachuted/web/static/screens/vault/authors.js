/** Authors: who wrote each line of a note, and why. */

import { html } from '../../vendor/view.js';
import { get } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address } from '../../lib/router.js';
import { t } from '../../lib/strings.js';
import { ago } from '../../lib/times.js';
import { Shown } from '../../ui/parts.js';

/** @param {{path: string}} props */
export function Authors({ path }) {
  const why = useLoad((signal) => get('/api/why', { path }, signal), [path]);
  useEvents(['file.', 'run.finished'], (told) => { if (told.event !== 'file.created' && (!told.data.path || told.data.path === path)) why.reload(); });
  return html`<${Shown} of=${why}>${(/** @type {any} */ found) => html`
    <table class="authors">
      <thead class="hidden"><tr><th>${t.vault.who}</th><th>${t.vault.line}</th></tr></thead>
      <tbody>${groups(found.lines).map((lines) => html`
        <tr key=${lines[0].number} class=${lines[0].run ? 'agent' : ''}>
          <td><${Author} line=${lines[0]} run=${found.runs[lines[0].run]} /></td>
          <td><pre tabindex="0">${lines.map((one) => one.text).join('\n')}</pre></td>
        </tr>`)}</tbody>
    </table>`}<//>`;
}

/** @param {{line: any, run: any}} props */
const Author = ({ line, run }) => html`
  <strong>${t.vault.by(line.by)}</strong> <span class="soft">${ago(line.at)}</span>
  ${line.run && html`<br /><a href=${address('runs', [line.run])}>${run?.reason ?? t.vault.run}</a>
    ${run?.cost_usd > 0 && html`<span class="soft"> ${t.runs.cost(run.cost_usd)}</span>`}`}`;

/** Lines that follow each other and have the same author. @param {any[]} lines @returns {any[][]} */
function groups(lines) {
  const found = /** @type {any[][]} */ ([]);
  for (const line of lines) {
    const last = found.at(-1);
    if (last && last[0].run === line.run && last[0].by === line.by && last[0].at === line.at) last.push(line);
    else found.push([line]);
  }
  return found;
}
