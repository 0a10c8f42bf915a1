/** Suggestions: what waits for a person: leave that agents ask for, and changes that they suggest. */

import { html, useState } from '../../vendor/view.js';
import { get, post } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { noteAddress } from '../../lib/router.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { ago } from '../../lib/times.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { UnifiedDiff } from '../../ui/diff.js';
import { Button, Empty, Shown, Tag } from '../../ui/parts.js';

const ANSWERS = /** @type {const} */ (['once', 'session', 'deny']);

export default function Suggestions() {
  const isAsked = may('curator', 'admin');
  const asked = useLoad((signal) => (isAsked ? get('/api/permissions', {}, signal) : Promise.resolve({ permissions: [] })), [isAsked]);
  const listed = useLoad((signal) => get('/api/suggestions', { status: 'pending' }, signal), []);
  useEvents(['permission.'], asked.reload);
  useEvents(['suggestion.'], listed.reload);
  return html`
    <div class="page suggestions">
      <header><h1>${t.suggestions.title}</h1>${listed.data?.suggestions.length > 1 && may('curator', 'write') && html`<${Button} icon="check" onClick=${() => approveAll(listed.reload)}>${t.suggestions.approveAll}<//>`}</header>
      <div>
        <${Shown} of=${asked}>${(/** @type {any} */ found) => (found.permissions.length > 0 ? html`<h2>${t.suggestions.permissions}</h2>${found.permissions.map((/** @type {any} */ one) => html`<${Permission} key=${one.id} of=${one} onDone=${asked.reload} />`)}` : null)}<//>
        <${Shown} of=${listed}>${(/** @type {any} */ found) => (found.suggestions.length > 0 ? html`<h2>${t.suggestions.suggested}</h2>${may('curator', 'write') && html`<p class="soft">${t.suggestions.keys}</p>`}${found.suggestions.map((/** @type {any} */ one) => html`<${Suggestion} key=${one.id} of=${one} onDone=${listed.reload} />`)}`
          : asked.data?.permissions.length === 0 ? html`<${Empty}>${t.suggestions.empty}<//>` : null)}<//>
      </div>
    </div>`;
}

/** @param {{of: any, onDone: () => void}} props */
function Permission({ of, onDone }) {
  const answer = async (/** @type {string} */ chosen) => {
    try {
      await post(`/api/permissions/${encodeURIComponent(of.id)}`, { answer: chosen });
    } catch (error) {
      toastProblem(error);
    }
    onDone();
  };
  return html`
    <section class="card">
      <h3>${of.agent} ${t.suggestions.wants[of.kind] ?? of.kind} <code>${of.what}</code></h3>
      <p>${of.why}</p>
      <p class="soft">${t.suggestions.until(ago(of.until))}</p>
      <p class="row">${ANSWERS.map((one) => html`<${Button} key=${one} kind=${one === 'once' ? 'main' : 'plain'} onClick=${() => answer(one)}>${t.suggestions.answers[one]}<//>`)}</p>
    </section>`;
}

/** Decided by its buttons, or by keys while it has the focus. @param {{of: any, onDone: () => void}} props */
function Suggestion({ of, onDone }) {
  const place = `/api/suggestions/${encodeURIComponent(of.id)}`;
  const whole = useLoad((signal) => get(place, {}, signal), [of.id]);
  const [draft, setDraft] = useState(/** @type {string | null} */ (null));
  const mayWrite = may('curator', 'write');
  const decide = async (/** @type {'approve' | 'reject' | 'modify'} */ what, /** @type {any} */ body = {}) => {
    try {
      await post(`${place}/${what}`, body);
      toast(t.suggestions[what === 'reject' ? 'rejected' : 'approved']);
      setDraft(null);
    } catch (error) {
      toastProblem(error);
    }
    onDone();
  };
  const edit = () => { if (whole.data) setDraft(typeof whole.data.payload.text === 'string' ? whole.data.payload.text : JSON.stringify(whole.data.payload, null, 2)); };
  const save = () => {
    try {
      const payload = typeof whole.data.payload.text === 'string' ? { ...whole.data.payload, text: draft } : JSON.parse(draft ?? '');
      decide('modify', { payload });
    } catch (error) {
      toastProblem(error);
    }
  };
  const byKey = (/** @type {any} */ event) => {
    if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return;
    const other = /** @type {Record<string, any>} */ ({ ArrowDown: event.target.nextElementSibling, ArrowUp: event.target.previousElementSibling })[event.key];
    const act = mayWrite && /** @type {Record<string, () => void>} */ ({ a: () => decide('approve'), r: () => decide('reject'), e: edit })[event.key];
    if (!other && !act) return;
    event.preventDefault();
    if (act) act();
    else other.focus();
  };
  return html`
    <section class="card" tabindex="0" aria-label=${of.title} onKeyDown=${byKey}>
      <h3>${of.title} <${Tag}>${of.action}<//></h3>
      <p class="soft"><a href=${noteAddress(of.path)}>${of.path}</a> · ${of.source_agent} · ${ago(of.timestamp)}</p>
      <p>${of.reasoning}</p>
      ${draft !== null ? html`<label>${t.suggestions.text}<textarea class="command" rows="12" value=${draft} onInput=${(/** @type {any} */ event) => setDraft(event.target.value)}></textarea></label>`
        : html`<${Shown} of=${whole}>${(/** @type {any} */ found) => (found.diff ? html`<${UnifiedDiff} text=${found.diff} />` : found.text ? html`<pre class="command" tabindex="0" aria-label=${t.suggestions.text}>${found.text}</pre>` : null)}<//>`}
      ${mayWrite && (draft !== null ? html`<p class="row"><${Button} kind="main" icon="check" onClick=${save}>${t.suggestions.approveEdited}<//><${Button} onClick=${() => setDraft(null)}>${t.app.cancel}<//></p>` : html`
        <p class="row"><${Button} kind="main" icon="check" onClick=${() => decide('approve')}>${t.suggestions.approve}<//><${Button} icon="edit" onClick=${edit}>${t.suggestions.edit}<//><${Button} onClick=${() => decide('reject')}>${t.suggestions.reject}<//></p>`)}
    </section>`;
}

/** @param {() => void} onDone */
async function approveAll(onDone) {
  try {
    const told = await post('/api/suggestions/approve-all');
    toast(t.suggestions.approvedAll(told.resolved.length, Object.keys(told.failed).length));
  } catch (error) {
    toastProblem(error);
  }
  onDone();
}
