/** Module settings: a form from the module's own settings, and more instructions for its agents. */

import { html, useState } from '../../vendor/view.js';
import { ask, get } from '../../lib/api.js';
import { useLoad } from '../../lib/load.js';
import { t } from '../../lib/strings.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Button, Empty, Shown, Tag } from '../../ui/parts.js';
import { ValueInput } from '../../ui/value-input.js';
import { Words } from '../../ui/words.js';

/** @param {{name: string}} props */
export function ModuleSettings({ name }) {
  const listed = useLoad((signal) => get(`/api/modules/${name}/settings`, {}, signal), [name]);
  return html`
    <${Shown} of=${listed}>${(/** @type {any} */ found) => (found.settings.length === 0 ? html`<${Empty}>${t.modules.noSettings}<//>` : html`
      <ul class="settings-list">${found.settings.map((/** @type {any} */ one) => html`<li key=${one.key}><${Setting} of=${one} place=${`/api/modules/${name}/settings/${encodeURIComponent(one.key)}`} onChange=${listed.set} /></li>`)}</ul>`)}<//>
    <${Prompt} name=${name} />`;
}

/** @param {{of: any, place: string, onChange: (told: any) => void}} props */
function Setting({ of, place, onChange }) {
  const [text, setText] = useState(/** @type {string | null} */ (null));
  const save = async (/** @type {any} */ value) => {
    try {
      onChange(await ask('PUT', place, { body: { value } }));
      setText(null);
      toast(t.modules.saved);
    } catch (error) {
      toastProblem(error);
    }
  };
  const now = shown(of.value);
  const isPlain = !of.kind.split(' | ').every((/** @type {string} */ one) => ['list', 'mapping', 'nothing'].includes(one));
  return html`
    <form onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); if (text !== null) save(valueOf(text, of.kind)); }}>
      <label><code>${of.key}</code><span class="means"><${Words} text=${of.description} /></span>
        <${ValueInput} kind=${of.kind} value=${text ?? now} disabled=${!isPlain} onInput=${setText} /></label>
      <p class="row middle soft"><span class="grow">${of.is_set ? t.settings.isNot(shown(of.default)) : t.settings.isDefault} <${Tag}>${of.kind}<//></span>
        ${text !== null && text !== now && html`<${Button} kind="main" type="submit">${t.settings.save}<//><${Button} onClick=${() => setText(null)}>${t.app.cancel}<//>`}
        ${!isPlain && html`<span>${t.modules.byHand}</span>`}
        ${text === null && of.is_set && html`<${Button} onClick=${() => save(null)}>${t.settings.reset}<//>`}</p>
    </form>`;
}

/** @param {any} value */
const shown = (value) => (typeof value === 'string' ? value : value === null ? '' : JSON.stringify(value));

/** The text as JSON has it; what does not fit goes as text, and the module says why it does not. @param {string} text @param {string} kind */
function valueOf(text, kind) {
  if (kind.split(' | ').includes('text') || !text) return text || null;
  if (text === 'true' || text === 'false') return text === 'true';
  return /^-?\d+(\.\d+)?$/.test(text) && kind.includes('number') ? Number(text) : text;
}

/** @param {{name: string}} props */
function Prompt({ name }) {
  const place = `/api/modules/${name}/prompt`;
  const kept = useLoad((signal) => get(place, {}, signal), [name]);
  const [text, setText] = useState(/** @type {string | null} */ (null));
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      kept.set(await ask('PUT', place, { body: text ? { content: text } : { reset: true } }));
      setText(null);
      toast(t.modules.saved);
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`<${Shown} of=${kept}>${(/** @type {any} */ found) => html`
    <form class="form" onSubmit=${save}>
      <label>${t.modules.prompt}<textarea rows="3" value=${text ?? found.content ?? ''} onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea></label>
      <p class="row middle"><span class="soft grow">${t.modules.promptWhy}</span>${text !== null && html`<${Button} kind="main" type="submit">${t.settings.save}<//>`}</p>
    </form>
    ${found.defaultPrompt && html`<details><summary>${t.modules.usual}</summary><pre class="command" tabindex="0">${found.defaultPrompt}</pre></details>`}`}<//>`;
}
