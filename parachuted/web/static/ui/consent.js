/** Consent: what approving a module would allow, what changed since, and the approval of just that. */

import { html, useState } from '../vendor/view.js';
import { get, post } from '../lib/api.js';
import { useLoad } from '../lib/load.js';
import { t } from '../lib/strings.js';
import { toast, toastProblem } from '../lib/toasts.js';
import { UnifiedDiff } from './diff.js';
import { Facts } from './facts.js';
import { Button, Shown, Tag } from './parts.js';

const LABEL = 10; // characters

/** @param {{name: string, trust?: 'trusted' | 'untrusted', onDone: (module: any) => void}} props */
export function Consent({ name, trust: first, onDone }) {
  const [trust, setTrust] = useState(/** @type {string} */ (first ?? ''));
  const shown = useLoad((signal) => get(`/api/modules/${name}/diff`, { trust }, signal), [name, trust]);
  const approve = async (/** @type {any} */ of) => {
    try {
      const told = await post(`/api/modules/${name}/approve`, { hash: of.hash, ...(of.consent.trust === 'verified' ? {} : { trust: of.consent.trust }) });
      toast(told.status === 'failed' ? t.consent.failed(name) : t.consent.approved(name), told.status === 'failed' ? { kind: 'problem' } : {});
      onDone(told);
    } catch (error) {
      toastProblem(error);
      shown.reload();
    }
  };
  return html`<section class="consent" aria-label=${t.consent.loading}>
    <${Shown} of=${shown}>${(/** @type {any} */ of) => html`
      ${of.consent.description && html`<p>${of.consent.description}</p>`}
      ${of.consent.trust === 'verified' ? html`<p><${Tag} kind="good">${t.consent.verified}<//></p>` : html`
        <label>${t.consent.trust}<select value=${of.consent.trust} onChange=${(/** @type {any} */ event) => setTrust(event.target.value)}>
          ${Object.entries(t.consent.trusts).map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}</select></label>`}
      <${Facts} of=${factsOf(of.consent.lines)} />
      ${of.diff && of.state !== 'new' && html`<details><summary>${t.consent.diff}</summary><${UnifiedDiff} text=${of.diff} label=${t.consent.diff} /></details>`}
      <p class="soft">${t.consent.digest}: <code>${of.hash}</code></p>
      ${of.state === 'approved' && !trust ? html`<p class="soft">${t.consent.same}</p>` : html`<p class="row"><${Button} kind="main" icon="check" onClick=${() => approve(of)}>${t.consent.approve}<//></p>`}`}
    <//></section>`;
}

/** The lines that a terminal shows, without those that stand above: names and values, and behind a mark what the module says in its own words. @param {string[]} lines @returns {[string, string][]} */
const factsOf = (lines) => lines.slice(2).map((line) => [line.slice(0, LABEL).trimEnd(), line.slice(LABEL).trim()]);
