/** Compose: what a person says; kept in this browser until it is sent. */

import { html, useState } from '../../vendor/view.js';
import { t } from '../../lib/strings.js';
import { toastProblem } from '../../lib/toasts.js';
import { Button } from '../../ui/parts.js';

/** @param {{id: string, isGoing: boolean, say: (message: string) => Promise<unknown>, stop: () => void}} props */
export function Compose({ id, isGoing, say, stop }) {
  const name = `parachute.message.${id || 'new'}`;
  const [text, setText] = useState(localStorage.getItem(name) ?? '');
  const keep = (/** @type {string} */ value) => {
    setText(value);
    if (value) localStorage.setItem(name, value);
    else localStorage.removeItem(name);
  };
  const send = async () => {
    const message = text.trim();
    if (!message) return;
    keep('');
    try {
      await say(message);
    } catch (error) {
      keep(message);
      toastProblem(error);
    }
  };
  const byKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  };
  return html`
    <form class="compose" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); send(); }}>
      <textarea rows="2" aria-label=${t.chat.message} placeholder=${isGoing ? t.chat.addTo : t.chat.message} value=${text}
        onInput=${(/** @type {any} */ event) => keep(event.target.value)} onKeyDown=${byKey}></textarea>
      <div class="row middle"><span class="soft grow">${t.chat.hint}</span>
        ${isGoing && html`<${Button} icon="stop" onClick=${stop}>${t.chat.stop}<//>`}
        <${Button} kind="main" icon="send" type="submit" disabled=${!text.trim()}>${t.chat.send}<//>
      </div>
    </form>`;
}
