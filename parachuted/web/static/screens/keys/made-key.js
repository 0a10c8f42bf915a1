/** Made key: a new key with its link and QR code, which are shown this once. */

import { html } from '../../vendor/view.js';
import { t } from '../../lib/strings.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Button } from '../../ui/parts.js';
import { Qr } from '../../ui/qr.js';

/** @param {{of: any, onDone: () => void}} props */
export const MadeKey = ({ of, onDone }) => html`
  <section class="card made" role="status" aria-label=${of.name}>
    <h2>${of.name}</h2>
    <p>${t.keys.once}</p>
    <div class="row middle">
      <${Qr} rows=${of.qr} label=${t.keys.qr} />
      <div class="grow form">
        <${Copied} label=${t.keys.key} text=${of.key} />
        ${of.link ? html`<${Copied} label=${t.keys.link} text=${of.link} />` : html`<p class="soft">${t.keys.noLink}</p>`}
      </div>
    </div>
    <p class="row"><${Button} kind="main" onClick=${onDone}>${t.keys.done}<//></p>
  </section>`;

/** @param {{label: string, text: string}} props */
function Copied({ label, text }) {
  const copy = () => (navigator.clipboard ? navigator.clipboard.writeText(text) : Promise.reject(new Error(t.health.insecure))).then(() => toast(t.keys.copied), toastProblem);
  return html`
    <div class="row"><label class="grow">${label}<input readonly value=${text} onFocus=${(/** @type {any} */ event) => event.target.select()} /></label>
      <${Button} onClick=${copy} aria-label=${`${t.keys.copy}: ${label}`}>${t.keys.copy}<//></div>`;
}
