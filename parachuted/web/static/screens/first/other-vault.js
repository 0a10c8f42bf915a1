/** Other vault: another folder of notes is chosen, or made, and used after a restart of the daemon. */

import { html, useState } from '../../vendor/view.js';
import { post } from '../../lib/api.js';
import { t } from '../../lib/strings.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Button } from '../../ui/parts.js';

export function OtherVault() {
  const [folder, setFolder] = useState('~/Notes');
  const [isMade, setMade] = useState(true);
  const [chosen, setChosen] = useState(/** @type {any} */ (null));
  const choose = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      setChosen(await post('/api/vault', { folder: folder.trim(), make: isMade }));
    } catch (error) {
      toastProblem(error);
    }
  };
  const restart = async () => {
    try {
      await post('/supervisor/server/restart');
      setChosen(null);
      toast(t.settings.restarting);
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`
    <details><summary>${t.first.vaultOther}</summary>
      <form class="form" onSubmit=${choose}>
        <label>${t.first.vaultFolder}<input required value=${folder} onInput=${(/** @type {any} */ event) => setFolder(event.target.value)} /></label>
        <label class="check"><input type="checkbox" checked=${isMade} onChange=${(/** @type {any} */ event) => setMade(event.target.checked)} /> ${t.first.vaultMake}</label>
        <p class="row"><${Button} type="submit" kind="main">${t.first.vaultUse}<//></p>
      </form>
      ${chosen && html`<p role="status">${chosen.says} ${t.first.vaultNext(chosen.folder)}</p>
        ${chosen.restart && html`<p class="row"><${Button} kind="main" onClick=${restart}>${t.settings.restartNow}<//></p>`}`}
    </details>`;
}
