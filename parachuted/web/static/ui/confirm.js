/** Confirm: a button whose act is done at the second click, with what it does said between. */

import { html, useEffect, useRef, useState } from '../vendor/view.js';
import { t } from '../lib/strings.js';
import { Button } from './parts.js';

/** @param {{label: string, act: () => void, why: any, name: string, icon?: import('./icon.js').IconName}} props */
export function Confirm({ label, act, why, name, icon }) {
  const [isAsked, setAsked] = useState(false);
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => { if (isAsked) place.current?.querySelector('button')?.focus(); }, [isAsked]);
  if (!isAsked) return html`<${Button} icon=${icon} onClick=${() => setAsked(true)}>${label}<//>`;
  return html`
    <section class="card confirm" role="alert" ref=${place}>
      <p>${why}</p>
      <p class="row"><${Button} kind="danger" icon=${icon} onClick=${() => { setAsked(false); act(); }}>${name}<//><${Button} onClick=${() => setAsked(false)}>${t.app.cancel}<//></p>
    </section>`;
}
