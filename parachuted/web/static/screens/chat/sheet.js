/** Sheet: how a conversation runs: mode, model, what its agent may do, context, prompt, curator and runs. */

import { html, useEffect, useState } from '../../vendor/view.js';
import { ask, get, post } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address, go } from '../../lib/router.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { ago } from '../../lib/times.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Markdown } from '../../ui/markdown.js';
import { Button, Shown, Tag } from '../../ui/parts.js';
import { BrainLog } from './brain-log.js';
import { LinkedChat } from './linked-chat.js';
import { PromptParts } from './prompt-parts.js';
import { MODES, Rights } from './rights.js';

/** @param {{session: any, place: string, onChange: () => void}} props */
export function Sheet({ session: held, place, onChange }) {
  const isFixed = !may('chat', 'write');
  const [wish, setWish] = useState(/** @type {any} */ ({})); // what was chosen is shown before it is saved
  const session = { ...held, ...wish, metadata: { ...held.metadata, ...(wish.permissions ? { permissions: wish.permissions } : {}) } };
  useEffect(() => setWish({}), [held.updatedAt]);
  const change = async (/** @type {any} */ body) => {
    setWish({ ...wish, ...body });
    try {
      await ask('PATCH', place, { body });
      onChange();
    } catch (error) {
      setWish({});
      toastProblem(error);
    }
  };
  const proceed = async () => {
    try {
      const made = await post(`${place}/continue`);
      go(address('chat', [made.session.id]));
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`
    <section class="sheet" aria-label=${t.chat.sheet}>
      <div class="row">
        <label>${t.chat.mode}<select value=${session.mode} disabled=${isFixed} onChange=${(/** @type {any} */ event) => change({ mode: event.target.value })}>${MODES.map((one) => html`<option key=${one} value=${one}>${t.chat.modes[one]}</option>`)}</select></label>
        <${Model} session=${session} isFixed=${isFixed} change=${change} />
        ${!isFixed && html`<${Button} onClick=${proceed}>${t.chat.proceed}<//>`}
      </div>
      <${Rights} session=${session} isFixed=${isFixed} change=${change} />
      <${Folders} session=${session} isFixed=${isFixed} change=${change} />
      <${LinkedChat} session=${session} onChange=${onChange} />
      <${Prompt} place=${place} on=${[session.mode, session.model, session.contextFolders]} />
      <${BrainLog} place=${place} isFixed=${isFixed} />
      <${Curator} session=${session} place=${place} isFixed=${isFixed} />
      <${Runs} place=${place} />
    </section>`;
}

/** @param {{session: any, isFixed: boolean, change: (body: any) => void}} props */
function Model({ session, isFixed, change }) {
  const mayRead = may('system', 'read');
  const known = useLoad((signal) => (mayRead ? get('/api/models', {}, signal) : Promise.resolve({ models: [] })), [mayRead]);
  const models = known.data?.models ?? [];
  const isUnlisted = session.model && !models.some((/** @type {any} */ one) => one.id === session.model);
  return html`<label>${t.chat.model}<select value=${session.model ?? ''} disabled=${isFixed} onChange=${(/** @type {any} */ event) => change({ model: event.target.value || null })}>
    <option value="">${t.chat.usualModel(known.data?.current ?? '')}</option>
    ${isUnlisted && html`<option value=${session.model}>${session.model}</option>`}
    ${models.map((/** @type {any} */ one) => html`<option key=${one.id} value=${one.id}>${one.display_name}</option>`)}</select></label>`;
}

/** @param {{session: any, isFixed: boolean, change: (body: any) => void}} props */
function Folders({ session, isFixed, change }) {
  const mayRead = may('vault', 'read');
  const folders = useLoad((signal) => (mayRead ? get('/api/contexts/folders', {}, signal) : Promise.resolve({ folders: [] })), [mayRead]);
  const chosen = /** @type {string[]} */ (session.contextFolders);
  return html`<${Shown} of=${folders}>${(/** @type {any} */ found) => {
    const tokens = found.folders.filter((/** @type {any} */ one) => chosen.includes(one.path)).reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.tokens, 0);
    return html`
      <fieldset disabled=${isFixed}><legend>${t.chat.folders} <span class="soft">${t.chat.tokens(tokens)}</span></legend>
        <div class="row folders">${found.folders.map((/** @type {any} */ one) => html`<label key=${one.path} class="check" title=${one.context_file}><input type="checkbox" checked=${chosen.includes(one.path)} onChange=${() => change({ contextFolders: chosen.includes(one.path) ? chosen.filter((other) => other !== one.path) : [...chosen, one.path] })} />${one.path || one.display_name} <span class="soft">${t.chat.tokens(one.tokens)}</span></label>`)}</div>
      </fieldset>`;
  }}<//>`;
}

/** What the next message would be asked with. @param {{place: string, on: any[]}} props */
function Prompt({ place, on }) {
  const [isOpen, setOpen] = useState(false);
  const prompt = useLoad((signal) => (isOpen ? get(`${place}/prompt`, { message: '' }, signal) : Promise.resolve(null)), [isOpen, place, on]);
  return html`
    <details onToggle=${(/** @type {any} */ event) => setOpen(event.target.open)}><summary>${t.chat.prompt}</summary>
      <${Shown} of=${prompt}>${(/** @type {any} */ told) => told && html`<${PromptParts} told=${told} /><pre class="command" tabindex="0" aria-label=${t.chat.promptText}>${told.prompt}</pre>`}<//>
    </details>`;
}

/** @param {{session: any, place: string, isFixed: boolean}} props */
function Curator({ session, place, isFixed }) {
  const [isOpen, setOpen] = useState(false);
  const told = useLoad((signal) => (isOpen ? get(`${place}/curator/messages`, {}, signal) : Promise.resolve({ messages: [] })), [isOpen, place, session.curatorLastRun?.ts]);
  const last = session.curatorLastRun;
  const trigger = async () => {
    try {
      await post(`${place}/curator/trigger`);
      toast(t.chat.curatorAsked);
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`
    <details onToggle=${(/** @type {any} */ event) => setOpen(event.target.open)}>
      <summary>${t.chat.curator} ${last ? html`<${Tag} kind="good">${ago(last.ts)}<//> <span class="soft">${t.chat.curatorDid(last.exchange_number, last.actions)}</span>` : html`<span class="soft">${t.chat.curatorNever}</span>`}</summary>
      ${!isFixed && html`<p><${Button} onClick=${trigger}>${t.chat.curatorTrigger}<//></p>`}
      ${(told.data?.messages ?? []).slice(-12).map((/** @type {any} */ one, /** @type {number} */ index) => html`<article key=${index} class="message ${one.role}"><header><strong>${t.chat.roles[one.role] ?? one.role}</strong></header><${Markdown} text=${typeof one.content === 'string' ? one.content : JSON.stringify(one.content)} /></article>`)}
    </details>`;
}

/** @param {{place: string}} props */
function Runs({ place }) {
  const loaded = useLoad((signal) => get(`${place}/runs`, {}, signal), [place]);
  useEvents(['run.'], loaded.reload);
  return html`<${Shown} of=${loaded}>${({ runs }) => (runs.length === 0 ? html`<p class="soft">${t.chat.noRuns}</p>` : html`
    <div><h3>${t.runs.title} <span class="soft">${t.chat.cost(runs.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + (one.cost_usd ?? 0), 0))}</span></h3>
      <ul class="plain">${runs.slice(0, 20).map((/** @type {any} */ one) => html`<li key=${one.id}><a href=${address('runs', [one.id])}>${one.reason || one.agent}</a> <span class="soft">${ago(one.started)}${one.cost_usd > 0 ? ` · ${t.runs.cost(one.cost_usd)}` : ''}</span></li>`)}</ul></div>`)}<//>`;
}
