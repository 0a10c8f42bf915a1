/** Unsent: what was written here and waits for the daemon. */

import { html } from '../vendor/view.js';
import { deliver, isWaiting, removeUnsent, unsent } from '../lib/unsent.js';
import { t } from '../lib/strings.js';
import { Button, Tag } from './parts.js';

/**
 * @param {{of: (item: import('../lib/unsent.js').Unsent) => boolean, text: (item: import('../lib/unsent.js').Unsent) => string}} props
 */
export function Unsent({ of, text }) {
  const waiting = unsent.value.filter((one) => isWaiting(one) && of(one));
  return waiting.length === 0 ? null : html`
    <section class="unsent" aria-label=${t.unsent.title}>
      ${waiting.map((one) => html`
        <article class="card" key=${one.id}>
          <header class="row middle"><${Tag} kind=${one.isRefused ? 'bad' : 'wait'}>${one.isRefused ? t.unsent.refused : t.unsent.waits}<//></header>
          <p class="as-typed">${text(one)}</p>
          ${one.problem && html`<p class="problem" role="alert">${one.problem}</p>`}
          <p class="row">
            <${Button} onClick=${() => deliver(one)}>${t.unsent.send}<//>
            <${Button} onClick=${() => removeUnsent(one)}>${t.unsent.remove}<//>
          </p>
        </article>`)}
    </section>`;
}
