/** Loops: open tasks and questions of the journal, with the days that they come from. */

import { html } from '../../vendor/view.js';
import { get } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address } from '../../lib/router.js';
import { t } from '../../lib/strings.js';
import { ago } from '../../lib/times.js';

const MOST = 12;

export function Loops() {
  const page = useLoad((signal) => get('/api/daily/loops', {}, signal), []);
  useEvents(['daily.'], page.reload);
  const loops = /** @type {any[]} */ (page.data?.loops ?? []).slice(-MOST).reverse();
  return html`
    <section class="loops" aria-label=${t.journal.loops}>
      <h2>${t.journal.loops}</h2>
      ${loops.length ? html`<ul class="rows">${loops.map((one, index) => html`<li key=${index}><a href=${dayOf(one)}>${one.text} <span class="soft">${ago(one.opened_by?.created_at)}</span></a></li>`)}</ul>`
        : page.data && html`<p class="soft">${t.journal.loopsEmpty}</p>`}
    </section>`;
}

/** @param {any} loop */
const dayOf = (loop) => address('journal', [/(\d{4}-\d\d-\d\d)/.exec(loop.opened_by?.path ?? '')?.[1] ?? '']);
