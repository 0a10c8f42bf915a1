/** Settings: every setting with its meaning, its value, where that comes from, and a way to change it. */

import { html, useState } from '../../vendor/view.js';
import { ask, get, post } from '../../lib/api.js';
import { useLoad } from '../../lib/load.js';
import { t } from '../../lib/strings.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Button, Empty, Shown, Tag } from '../../ui/parts.js';
import { ValueInput } from '../../ui/value-input.js';
import { Words } from '../../ui/words.js';

export default function Settings() {
  const [words, setWords] = useState('');
  const listed = useLoad((signal) => get('/api/settings', {}, signal), []);
  const restart = async () => {
    try {
      await post('/supervisor/server/restart');
      toast(t.settings.restarting);
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`
    <div class="page settings">
      <header><h1>${t.settings.title}</h1></header>
      <input type="search" class="narrow" aria-label=${t.settings.find} placeholder=${t.settings.find} value=${words} onInput=${(/** @type {any} */ event) => setWords(event.target.value)} />
      <${Shown} of=${listed}>${(/** @type {any} */ found) => {
        const chosen = found.settings.filter((/** @type {any} */ one) => `${one.key} ${one.means}`.toLowerCase().includes(words.trim().toLowerCase()));
        return html`
          ${found.restart && html`<div class="card row middle" role="status"><span class="grow">${t.settings.restart}</span><${Button} onClick=${restart}>${t.settings.restartNow}<//></div>`}
          ${chosen.length === 0 && html`<${Empty}>${t.settings.none}<//>`}
          ${[...Map.groupBy(chosen, groupOf)].map(([group, those]) => html`
            <section key=${group}><h2>${t.settings.groups[group] ?? group}</h2>
              <ul class="settings-list">${those.map((/** @type {any} */ one) => html`<li key=${one.key}><${Setting} of=${one} onChange=${listed.set} /></li>`)}</ul>
            </section>`)}`;
      }}<//>
    </div>`;
}

/** @param {any} one @returns {string} */
const groupOf = (one) => (one.key.includes('.') ? one.key.split('.')[0] : '');

/** @param {{of: any, onChange: (told: any) => void}} props */
function Setting({ of, onChange }) {
  const [text, setText] = useState(/** @type {string | null} */ (null));
  const save = async (/** @type {string} */ value) => {
    try {
      onChange(await ask('PUT', `/api/settings/${of.key}`, { body: { value } }));
      setText(null);
      toast(t.settings.saved);
    } catch (error) {
      toastProblem(error);
    }
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (text !== null) save(text);
  };
  const isChanged = text !== null && text !== of.next;
  return html`
    <form onSubmit=${submit}>
      <label><code>${of.key}</code><span class="means"><${Words} text=${of.means} /></span>
        <${ValueInput} kind=${of.kind} value=${text ?? of.next} disabled=${!of.editable} onInput=${setText} />
      </label>
      <p class="row middle soft">
        <span class="grow">${of.next === of.default ? t.settings.isDefault : t.settings.isNot(of.default)}${of.source && (of.editable ? ` · ${t.settings.source(of.source)}` : ` · ${t.settings.fixed(of.source)}`)}
          ${of.value !== of.next && html` <${Tag} kind="wait">${t.settings.next(of.next)}<//>`}</span>
        ${isChanged && html`<${Button} kind="main" type="submit">${t.settings.save}<//><${Button} onClick=${() => setText(null)}>${t.app.cancel}<//>`}
        ${!isChanged && of.editable && of.source && html`<${Button} onClick=${() => save('')}>${t.settings.reset}<//>`}
      </p>
    </form>`;
}
