/** Move: another path for a note; links to it follow. */

import { html, useState } from '../../vendor/view.js';
import { inAddress, post } from '../../lib/api.js';
import { go, noteAddress } from '../../lib/router.js';
import { t } from '../../lib/strings.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Button } from '../../ui/parts.js';

/** @param {{path: string, onDone: () => void}} props */
export function Move({ path, onDone }) {
  const [to, setTo] = useState(path);
  const target = to.trim().replace(/^\/+/, '').replace(/(\.md)?$/, '.md');
  const move = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const done = await post(`/api/notes/${inAddress(path)}/move`, { to: target });
      onDone();
      go(noteAddress(done.path));
      toast(t.vault.moved(done.path, done.left));
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`
    <section class="card" aria-label=${t.vault.move}>
      <form class="form" onSubmit=${move}>
        <label>${t.vault.moveTo}<input required value=${to} onInput=${(/** @type {any} */ event) => setTo(event.target.value)} /></label>
        <p class="row"><${Button} type="submit" kind="main" disabled=${target === path}>${t.vault.moveNow}<//><${Button} onClick=${onDone}>${t.app.cancel}<//></p>
      </form>
    </section>`;
}
