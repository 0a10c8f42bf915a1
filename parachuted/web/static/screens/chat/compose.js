/** Compose: what a person says; kept in this browser until it is sent. */

import { html, useRef, useState } from '../../vendor/view.js';
import { t } from '../../lib/strings.js';
import { toastProblem } from '../../lib/toasts.js';
import { Button } from '../../ui/parts.js';
import { asAttachments, Attached, withFiles } from './attachments.js';

/** @param {{id: string, isGoing: boolean, say: (message: string, attachments: any[]) => Promise<unknown>, stop: () => void}} props */
export function Compose({ id, isGoing, say, stop }) {
  const name = `parachute.message.${id || 'new'}`;
  const [text, setText] = useState(localStorage.getItem(name) ?? '');
  const [files, setFiles] = useState(/** @type {File[]} */ ([]));
  const picker = useRef(/** @type {HTMLInputElement | null} */ (null));
  const add = (/** @type {Iterable<File> | null | undefined} */ more) => setFiles((held) => withFiles(held, more ?? []));
  const keep = (/** @type {string} */ value) => {
    setText(value);
    if (value) localStorage.setItem(name, value);
    else localStorage.removeItem(name);
  };
  const send = async () => {
    const message = text.trim();
    if (!message && !files.length) return;
    const sent = files;
    keep('');
    setFiles([]);
    try {
      await say(message, await asAttachments(sent));
    } catch (error) {
      keep(message);
      setFiles(sent);
      toastProblem(error);
    }
  };
  const byKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  };
  return html`
    <form class="compose" onDragOver=${(/** @type {DragEvent} */ event) => { if (event.dataTransfer?.types.includes('Files')) event.preventDefault(); }}
      onDrop=${(/** @type {DragEvent} */ event) => { if (event.dataTransfer?.files.length) { event.preventDefault(); add(event.dataTransfer.files); } }} onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); send(); }}>
      <textarea rows="2" aria-label=${t.chat.message} placeholder=${isGoing ? t.chat.addTo : t.chat.message} value=${text}
        onInput=${(/** @type {any} */ event) => keep(event.target.value)} onKeyDown=${byKey}
        onPaste=${(/** @type {ClipboardEvent} */ event) => { if (event.clipboardData?.files.length) { event.preventDefault(); add(event.clipboardData.files); } }}></textarea>
      <${Attached} files=${files} onChange=${setFiles} />
      <div class="row middle"><span class="soft grow">${t.chat.hint}</span>
        <input type="file" multiple hidden ref=${picker} onChange=${(/** @type {any} */ event) => { add(event.target.files); event.target.value = ''; }} />
        ${!isGoing && html`<${Button} icon="plus" onClick=${() => picker.current?.click()}>${t.chat.attach}<//>`}
        ${isGoing && html`<${Button} icon="stop" onClick=${stop}>${t.chat.stop}<//>`}
        <${Button} kind="main" icon="send" type="submit" disabled=${!text.trim() && !files.length}>${t.chat.send}<//>
      </div>
    </form>`;
}
