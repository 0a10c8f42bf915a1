/** Bots: the platforms, who waits to be let in, and what new conversations from there may do. */

import { html, useEffect } from '../../vendor/view.js';
import { ask, get, post } from '../../lib/api.js';
import { useLoad } from '../../lib/load.js';
import { t } from '../../lib/strings.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Button, Shown, Tag } from '../../ui/parts.js';
import { MODES, Rights } from '../chat/rights.js';
import { Platform } from './platform.js';

const PAUSE_MS = 3_000;

export default function Bots() {
  const loaded = useLoad(async (signal) => {
    const [status, config, waiting] = await Promise.all(['status', 'config', 'pairing'].map((one) => get(`/api/bots/${one}`, {}, signal)));
    return { status: status.connectors, config, pending: waiting.pending };
  }, []);
  useEffect(() => { // a request to be let in is no event
    const timer = setInterval(() => { if (document.visibilityState === 'visible') loaded.reload(); }, PAUSE_MS);
    return () => clearInterval(timer);
  }, []);
  return html`
    <div class="page bots">
      <header><h1>${t.bots.title}</h1></header>
      <p class="soft reading-width">${t.bots.why}</p>
      <${Shown} of=${loaded}>${(/** @type {any} */ found) => html`
        <section class="form"><h2>${t.bots.waiting}</h2>
          ${found.pending.length === 0 && html`<p class="soft">${t.bots.noWaiting}</p>`}
          <ul class="cards">${found.pending.map((/** @type {any} */ one) => html`<li key=${one.id} class="card"><${Waiting} of=${one} onChange=${loaded.reload} /></li>`)}</ul>
        </section>
        <ul class="cards">${Object.entries(found.status).map(([name, status]) => html`<li key=${name} class="card"><${Platform} name=${name} status=${status} config=${found.config[name]} onChange=${loaded.reload} /></li>`)}</ul>
        ${/** @type {const} */ (['dm', 'group']).map((kind) => html`<${Defaults} key=${kind} kind=${kind} of=${found.config.defaults[kind]} onChange=${loaded.reload} />`)}`}
      <//>
    </div>`;
}

/** @param {{of: any, onChange: () => void}} props */
function Waiting({ of, onChange }) {
  const decide = async (/** @type {'approve' | 'deny'} */ how) => {
    try {
      await post(`/api/bots/pairing/${encodeURIComponent(of.code)}/${how}`);
      toast((how === 'approve' ? t.bots.approved : t.bots.denied)(of.sender_name));
    } catch (error) {
      toastProblem(error);
    }
    onChange();
  };
  return html`
    <div class="row middle"><div class="grow"><strong>${of.sender_name}</strong> <span class="soft">${of.sender_id} ${t.bots.onPlatform(t.bots.platforms[of.platform])}</span> <${Tag} kind="wait">${t.bots.waits(of.code)}<//></div>
      <${Button} kind="main" onClick=${() => decide('approve')}>${t.bots.approve}<//><${Button} onClick=${() => decide('deny')}>${t.bots.deny}<//></div>`;
}

/** @param {{kind: 'dm' | 'group', of: any, onChange: () => void}} props */
function Defaults({ kind, of, onChange }) {
  const { mode, ...permissions } = of;
  const change = async (/** @type {any} */ more) => {
    try {
      await ask('PUT', '/api/bots/config', { body: { defaults: { [kind]: { ...of, ...more } } } });
    } catch (error) {
      toastProblem(error);
    }
    onChange();
  };
  return html`
    <section class="card" aria-label=${t.bots.defaults[kind]}>
      <h2>${t.bots.defaults[kind]}</h2><p class="soft">${t.bots.defaultsWhy[kind]}</p>
      <label class="narrow">${t.chat.mode}<select value=${mode} onChange=${(/** @type {any} */ event) => change({ mode: event.target.value })}>${MODES.map((one) => html`<option key=${one} value=${one}>${t.chat.modes[one]}</option>`)}</select></label>
      <${Rights} session=${{ metadata: { permissions }, contextFolders: [] }} isFixed=${false} change=${(/** @type {any} */ body) => change(body.permissions)} />
    </section>`;
}
