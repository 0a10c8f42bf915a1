/** Move: another path for a note, with the links that change shown first. */

import { html, useState } from '../../vendor/view.js';
import { inAddress, post } from '../../lib/api.js';
import { go, noteAddress } from '../../lib/router.js';
import { t } from '../../lib/strings.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { UnifiedDiff } from '../../ui/diff.js';
import { Button } from '../../ui/parts.js';

/** @param {{path: string, onDone: () => void}} props */
export function Move({ path, onDone }) {
  const [to, setTo] = useState(path);
  const [plan, setPlan] = useState(/** @type {any} */ (null));
  const place = `/api/notes/${inAddress(path)}`;
  const target = to.trim().replace(/^\/+/, '').replace(/(\.md)?$/, '.md');
  const show = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      setPlan(await post(`${place}/move-plan`, { to: target }));
    } catch (error) {
      toastProblem(error);
    }
  };
  const move = async () => {
    try {
      const done = await post(`${place}/move`, { to: plan.path });
      onDone();
      go(noteAddress(done.path));
      toast(t.vault.moved(done.path));
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`
    <section class="card" aria-label=${t.vault.move}>
      <form class="form" onSubmit=${show}>
        <label>${t.vault.moveTo}<input required value=${to} onInput=${(/** @type {any} */ event) => { setTo(event.target.value); setPlan(null); }} /></label>
        <p class="row"><${Button} type="submit" kind=${plan ? 'plain' : 'main'} disabled=${target === path}>${t.vault.movePlan}<//><${Button} onClick=${onDone}>${t.app.cancel}<//></p>
      </form>
      ${plan && html`<${Planned} of=${plan} /><p class="row"><${Button} kind="main" onClick=${move}>${t.vault.moveNow}<//></p>`}
    </section>`;
}

/** @param {{of: any}} props */
const Planned = ({ of }) => html`
  <p role="status">${t.vault.moveLinks(of.links.length)} ${of.left > 0 && t.vault.moveLeft(of.left)}</p>
  ${of.links.length > 0 && html`<${UnifiedDiff} text=${of.links.map((/** @type {any} */ one) => `@@ ${one.path}:${one.line}\n-${one.was}\n+${one.becomes}`).join('\n')} />`}`;
