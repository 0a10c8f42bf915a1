/** New key: its name, what it may do, in which paths, until when. */

import { html, useState } from '../../vendor/view.js';
import { post } from '../../lib/api.js';
import { health } from '../../lib/modules.js';
import { t } from '../../lib/strings.js';
import { toastProblem } from '../../lib/toasts.js';
import { Button } from '../../ui/parts.js';

const LEVELS = /** @type {Record<string, string[]>} */ ({ read: ['read'], write: ['read', 'write'], admin: ['read', 'write', 'admin'] });
const PRESETS = /** @type {Record<string, string>} */ ({ usual: 'write', read: 'read', all: 'admin' });

/** @param {{onMade: (key: any) => void, onCancel: () => void}} props */
export function NewKey({ onMade, onCancel }) {
  const [name, setName] = useState('');
  const [preset, setPreset] = useState('usual');
  const [levels, setLevels] = useState(/** @type {Record<string, string>} */ ({ vault: 'read' }));
  const [paths, setPaths] = useState('');
  const [ends, setEnds] = useState('never');
  const [isSending, setSending] = useState(false);
  const modules = ['vault', 'curator', 'system', ...(health.value?.modules ?? []).map((/** @type {any} */ one) => one.name)];
  const scopes = () => {
    const globs = paths.split('\n').map((one) => one.trim()).filter(Boolean);
    const where = globs.length ? { paths: globs } : {};
    if (preset !== 'chosen') return [{ module: '*', capabilities: LEVELS[PRESETS[preset]], ...where }];
    return modules.filter((one) => levels[one]).map((one) => ({ module: one, capabilities: LEVELS[levels[one]], ...where }));
  };
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setSending(true);
    try {
      onMade(await post('/api/auth/keys', { label: name.trim(), scopes: scopes(), ...(ends === 'never' ? {} : { expires: ends }) }));
    } catch (error) {
      toastProblem(error);
      setSending(false);
    }
  };
  return html`
    <form class="card form" onSubmit=${submit} aria-label=${t.keys.create}>
      <label>${t.keys.name}<input required maxlength="100" autofocus placeholder=${t.keys.namePlaceholder} value=${name} onInput=${(/** @type {any} */ event) => setName(event.target.value)} /></label>
      <label>${t.keys.may}<select value=${preset} onChange=${(/** @type {any} */ event) => setPreset(event.target.value)}>
        ${Object.entries(t.keys.presets).map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}</select></label>
      ${preset === 'chosen' && html`<div class="grid">${modules.map((one) => html`
        <label key=${one}>${one}${t.keys.modules[one] && html` <span class="soft">(${t.keys.modules[one]})</span>`}
          <select value=${levels[one] ?? ''} onChange=${(/** @type {any} */ event) => setLevels({ ...levels, [one]: event.target.value })}>
            <option value="">${t.keys.levels.none}</option><option value="read">${t.keys.levels.read}</option><option value="write">${t.keys.levels.write}</option><option value="admin">${t.keys.levels.admin}</option>
          </select></label>`)}</div>`}
      <label>${t.keys.paths}<textarea rows="2" value=${paths} placeholder="Projects/**" onInput=${(/** @type {any} */ event) => setPaths(event.target.value)}></textarea></label>
      <label>${t.keys.expires}<select value=${ends} onChange=${(/** @type {any} */ event) => setEnds(event.target.value)}>
        ${Object.entries(t.keys.ends).map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}</select></label>
      <p class="row"><${Button} kind="main" type="submit" disabled=${isSending}>${t.keys.make}<//><${Button} onClick=${onCancel}>${t.app.cancel}<//></p>
    </form>`;
}
