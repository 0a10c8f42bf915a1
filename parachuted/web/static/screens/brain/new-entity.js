/** New entity: its name and its type; the rest is written on its page. */

import { html, useState } from '../../vendor/view.js';
import { post } from '../../lib/api.js';
import { address, go } from '../../lib/router.js';
import { t } from '../../lib/strings.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Button } from '../../ui/parts.js';

/** @param {{types: any[], type: string, onCancel: () => void}} props */
export function NewEntity({ types, type, onCancel }) {
  const [name, setName] = useState('');
  const [kind, setKind] = useState(type || types[0]?.name || '');
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const made = await post('/api/brain/entities', { entity_type: kind, data: { name: name.trim() } });
      if (!made.created) toast(t.brain.isThere);
      go(address('brain', ['entity', made.entity_id]));
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`
    <form class="card row" onSubmit=${save}>
      <label class="grow">${t.brain.name}<input required maxlength="200" value=${name} onInput=${(/** @type {any} */ event) => setName(event.target.value)} /></label>
      <label>${t.brain.type}<select value=${kind} onChange=${(/** @type {any} */ event) => setKind(event.target.value)}>${types.map((one) => html`<option key=${one.name} value=${one.name}>${one.name}</option>`)}</select></label>
      <${Button} kind="main" type="submit">${t.brain.make}<//><${Button} onClick=${onCancel}>${t.app.cancel}<//>
    </form>`;
}
