/** Platform: one bot: whether it is connected, who it answers, its token, and adding it. */

import { html, useState } from '../../vendor/view.js';
import { ask, post } from '../../lib/api.js';
import { t } from '../../lib/strings.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Confirm } from '../../ui/confirm.js';
import { Facts } from '../../ui/facts.js';
import { Button, IconButton, Tag } from '../../ui/parts.js';

const KINDS = /** @type {Record<string, 'good' | 'wait'>} */ ({ connected: 'good', connecting: 'wait' });

/** @param {{name: string, status: any, config: any, onChange: () => void}} props */
export function Platform({ name, status, config, onChange }) {
  const [isOpen, setOpen] = useState(false);
  const title = t.bots.platforms[name] ?? name;
  const isThere = status.status !== 'none';
  const act = async (/** @type {() => Promise<any>} */ how, done = '') => {
    try {
      const answer = await how();
      if (answer.error) throw new Error(answer.error);
      if (done) toast(done);
    } catch (error) {
      toastProblem(error);
    }
    onChange();
  };
  const change = (/** @type {any} */ body) => act(() => ask('PUT', '/api/bots/config', { body: { [name]: body } }));
  return html`
    <header class="row middle"><h2 class="grow">${title} <${Tag} kind=${status.problem ? 'bad' : KINDS[status.status] ?? 'plain'}>${t.bots.states[status.status]}<//></h2>
      ${!isThere && !isOpen && !config.problem && html`<${Button} icon="plus" onClick=${() => setOpen(true)}>${t.bots.add(title)}<//>`}</header>
    ${status.problem && html`<p class="problem" role="alert">${status.problem}</p>`}
    ${!isThere && config.problem && html`<p class="soft">${config.problem}</p>`}
    ${isThere && html`
      <${Facts} of=${[[t.bots.facts.bot, status.bot_name], [t.bots.facts.server, config.homeserver_url], [t.bots.facts.token, config.has_token && t.bots.token]]} />
      <${People} of=${config.users} remove=${(/** @type {string} */ id) => act(() => ask('DELETE', `/api/bots/${name}/users/${encodeURIComponent(id)}`))} />
      <label class="narrow">${t.bots.facts.answers}<select value=${config.response_mode} onChange=${(/** @type {any} */ event) => change({ enabled: config.enabled, response_mode: event.target.value })}>${Object.entries(t.bots.modes).map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}</select></label>
      ${!isOpen && html`<div class="row">
        <${Button} onClick=${() => act(() => post(`/api/bots/${name}/${config.enabled ? 'stop' : 'start'}`))}>${config.enabled ? t.bots.stop : t.bots.start}<//>
        <${Button} icon="edit" onClick=${() => setOpen(true)}>${t.bots.edit}<//>
        <${Confirm} label=${t.bots.remove} icon="trash" why=${t.bots.removeWhy} name=${t.bots.removeNow} act=${() => act(() => ask('DELETE', `/api/bots/${name}`), t.bots.removed)} />
      </div>`}`}
    ${isOpen && html`<${Credentials} name=${name} config=${config} onDone=${() => { setOpen(false); onChange(); }} />`}`;
}

/** @param {{of: Record<string, string>, remove: (id: string) => void}} props */
const People = ({ of, remove }) => html`
  <div><h3>${t.bots.facts.people}</h3>
    ${Object.keys(of).length === 0 && html`<p class="soft">${t.bots.noPeople}</p>`}
    <ul class="plain">${Object.entries(of).map(([id, person]) => html`<li key=${id} class="row middle">${person} ${person !== id && html`<span class="soft">${id}</span>`}<${IconButton} icon="close" label=${t.bots.unpair(person)} onClick=${() => remove(id)} /></li>`)}</ul></div>`;

/** What the platform issued: stored once it has been checked, and never shown. @param {{name: string, config: any, onDone: () => void}} props */
function Credentials({ name, config, onDone }) {
  const [texts, setTexts] = useState(/** @type {Record<string, string>} */ ({ homeserver_url: config.homeserver_url, user_id: config.user_id }));
  const [problem, setProblem] = useState('');
  const [isSending, setSending] = useState(false);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setSending(true);
    setProblem('');
    try {
      const answer = await post(`/api/bots/${name}`, texts);
      if (answer.error) throw new Error(answer.error);
      toast(t.bots.connected(answer.bot_name));
      onDone();
    } catch (error) {
      setProblem(/** @type {Error} */ (error).message);
      setSending(false);
    }
  };
  return html`
    <form class="form" onSubmit=${submit} aria-label=${t.bots.add(t.bots.platforms[name])}>
      ${config.fields.filter((/** @type {any} */ one) => !one.is_optional).map((/** @type {any} */ one) => {
        const key = one.is_secret ? 'token' : one.name;
        return html`<label key=${key}>${one.label}<input required type=${one.is_secret ? 'password' : 'text'} autocomplete="off" spellcheck="false" value=${texts[key] ?? ''} onInput=${(/** @type {any} */ event) => setTexts({ ...texts, [key]: event.target.value.trim() })} /></label>`;
      })}
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      <p class="row"><${Button} kind="main" type="submit" disabled=${isSending}>${t.bots.connect}<//><${Button} onClick=${onDone}>${t.app.cancel}<//></p>
    </form>`;
}
