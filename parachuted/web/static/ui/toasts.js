/** Toasts: the list of short messages; a screen reader says each once. */

import { html } from '../vendor/view.js';
import { t } from '../lib/strings.js';
import { dismiss, toasts } from '../lib/toasts.js';
import { Button, IconButton } from './parts.js';

export const Toasts = () => html`
  <div class="toasts" role="status" aria-live="polite">
    ${toasts.value.map((one) => html`
      <div class="toast ${one.kind}" key=${one.id}>
        <span>${one.text}</span>
        ${one.act && html`<${Button} onClick=${() => { dismiss(one.id); one.act?.(); }}>${one.action}<//>`}
        <${IconButton} icon="close" label=${t.app.close} onClick=${() => dismiss(one.id)} />
      </div>`)}
  </div>`;
