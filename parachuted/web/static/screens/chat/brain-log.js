/** Brain log: what a conversation asked of Brain, what it was given, and the facts that it left there. */

import { html } from '../../vendor/view.js';
import { get, post } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { noteAddress } from '../../lib/router.js';
import { t } from '../../lib/strings.js';
import { toastProblem } from '../../lib/toasts.js';
import { Icon } from '../../ui/icon.js';
import { IconButton, Shown, Tag } from '../../ui/parts.js';

/** @param {{place: string, isFixed: boolean}} props */
export function BrainLog({ place, isFixed }) {
  const loaded = useLoad((signal) => get(`${place}/bridge`, {}, signal), [place]);
  useEvents(['chat.session.message', 'run.undone', 'suggestion.'], loaded.reload);
  const undo = async (/** @type {string} */ run) => {
    try {
      await post(`/api/runs/${encodeURIComponent(run)}/undo`);
      loaded.reload();
    } catch (error) {
      toastProblem(error);
    }
  };
  const log = /** @type {any[]} */ (loaded.data?.log ?? []);
  const stored = /** @type {any[]} */ (loaded.data?.stored ?? []);
  return html`
    <details><summary><${Icon} name="brain" />${t.chat.brain} <span class="soft">${loaded.data ? t.chat.brainAsked(log.filter((one) => one.loaded).length) : ''}</span></summary>
      <${Shown} of=${loaded}>${() => html`
        <ul class="plain">${log.map((one, at) => html`<li key=${at}>${one.query} <${Tag}>${t.chat.brainKinds[one.type] ?? one.type}<//> <span class="soft">${t.chat.brainTurn(one.turn_number)}</span>
          ${(one.loaded ?? []).map((/** @type {string} */ path) => html` <a key=${path} href=${noteAddress(path)}>${path.split('/').pop()?.replace(/\.md$/, '')}</a>`)}</li>`)}</ul>
        ${stored.length > 0 && html`<p><strong>${t.chat.brainStored}</strong></p><ul class="plain">${stored.map((one) => html`<li key=${one.id}><a href=${noteAddress(one.path)}>${one.name}</a> ${one.text} <${Tag}>${one.status}<//>${!isFixed && one.status === 'kept' && one.run && html`<${IconButton} icon="undo" label=${t.chat.brainUndo(one.text)} onClick=${() => undo(one.run)} />`}</li>`)}</ul>`}`}<//>
    </details>`;
}
