/** Keys: who may ask this daemon, and what each may do. */

import { html, useState } from '../../vendor/view.js';
import { ask, get } from '../../lib/api.js';
import { useLoad } from '../../lib/load.js';
import { caller } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { ago, momentName } from '../../lib/times.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Confirm } from '../../ui/confirm.js';
import { Facts } from '../../ui/facts.js';
import { Button, Empty, Shown, Tag } from '../../ui/parts.js';
import { MadeKey } from './made-key.js';
import { NewKey } from './new-key.js';

export default function Keys() {
  const listed = useLoad((signal) => get('/api/auth/keys', {}, signal), []);
  const [isMaking, setMaking] = useState(false);
  const [made, setMade] = useState(/** @type {any} */ (null));
  const taken = (/** @type {any} */ key) => {
    setMaking(false);
    setMade(key);
    listed.reload();
  };
  return html`
    <div class="page keys">
      <header><h1>${t.keys.title}</h1>${!isMaking && !made && html`<${Button} kind="main" icon="plus" onClick=${() => setMaking(true)}>${t.keys.create}<//>`}</header>
      <p class="soft reading-width">${t.keys.why}</p>
      ${isMaking && html`<${NewKey} onMade=${taken} onCancel=${() => setMaking(false)} />`}
      ${made && html`<${MadeKey} of=${made} onDone=${() => setMade(null)} />`}
      <${Shown} of=${listed}>${(/** @type {any} */ found) => html`
        ${found.problem && html`<p class="problem" role="alert">${found.problem}</p>`}
        <${Who} mode=${found.auth_mode} onChange=${listed.reload} />
        ${found.keys.length === 0 && html`<${Empty}>${t.keys.empty}<//>`}
        <ul class="cards">${found.keys.map((/** @type {any} */ one) => html`<li key=${one.id} class="card"><${Key} of=${one} onChange=${listed.reload} /></li>`)}</ul>`}
      <//>
    </div>`;
}

/** @param {{of: any, onChange: () => void}} props */
function Key({ of, onChange }) {
  const revoke = async () => {
    try {
      await ask('DELETE', `/api/auth/keys/${encodeURIComponent(of.id)}`);
      toast(t.keys.revoked);
    } catch (error) {
      toastProblem(error);
    }
    onChange();
  };
  const isOver = of.expires_at && new Date(of.expires_at) < new Date();
  return html`
    <header class="row middle"><h2 class="grow">${of.name}</h2>${isOver && html`<${Tag} kind="bad">${momentName(of.expires_at)}<//>`}</header>
    <p>${of.scopes.map((/** @type {any} */ one) => html`<${Tag} kind=${one.capabilities.includes('admin') ? 'wait' : 'plain'}>${t.keys.scope(one)}<//> `)}</p>
    <${Facts} of=${[
      [t.keys.used, of.last_used_at ? ago(of.last_used_at) : t.keys.never],
      [t.keys.expires, of.expires_at ? momentName(of.expires_at) : t.keys.ends.never],
      [t.keys.made, momentName(of.created_at)],
    ]} />
    <${Confirm} label=${t.keys.revoke} why=${t.keys.revokeWhy} name=${t.keys.revokeNow} icon="trash" act=${revoke} />`;
}

/** @param {{mode: string, onChange: () => void}} props */
function Who({ mode, onChange }) {
  const change = async (/** @type {any} */ event) => {
    try {
      await ask('PUT', '/api/auth/settings', { body: { auth_mode: event.target.value } });
    } catch (error) {
      toastProblem(error);
    }
    onChange();
  };
  const mayAll = (caller.value?.scopes ?? []).some((one) => one.module === '*' && one.capabilities.includes('admin') && !one.paths);
  return html`
    <label class="narrow">${t.keys.who}
      <select value=${mode} onChange=${change} disabled=${!mayAll}>${Object.entries(t.keys.modes).map(([value, name]) => html`<option key=${value} value=${value}>${name}</option>`)}</select>
    </label>`;
}
