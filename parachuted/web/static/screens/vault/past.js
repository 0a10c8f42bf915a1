/** Past: the versions of a note, what each changed, and the way back to one. */

import { html, useState } from '../../vendor/view.js';
import { get, inAddress, post, send } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address } from '../../lib/router.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { momentName } from '../../lib/times.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Diff } from '../../ui/diff.js';
import { Button, Empty, Shown } from '../../ui/parts.js';

/** @param {{path: string}} props */
export function Past({ path }) {
  const history = useLoad((signal) => get('/api/history', { path, limit: 200 }, signal), [path]);
  useEvents(['file.'], (told) => { if (told.event === 'reset' || told.data.path === path) history.reload(); });
  return html`<${Shown} of=${history}>${(/** @type {any} */ found) => {
    const kept = found.versions.filter((/** @type {any} */ one) => one.kept && one.version).reverse();
    return kept.length ? html`<${Versions} path=${path} versions=${kept} />` : html`<${Empty}>${t.vault.noPast}<//>`;
  }}<//>`;
}

/** @param {{path: string, versions: any[]}} props oldest first */
function Versions({ path, versions }) {
  const [chosen, setChosen] = useState(versions.length - 1);
  const at = Math.min(chosen, versions.length - 1);
  const version = versions[at];
  const isNow = at === versions.length - 1;
  const texts = useLoad(async (signal) => {
    const [after, before] = await Promise.all([textOf(path, isNow ? {} : version, signal), at > 0 ? textOf(path, versions[at - 1], signal) : '']);
    return { after, before };
  }, [path, version.version, at]);
  const restore = async () => {
    try {
      await post('/api/history/restore', { path, version: version.version });
      toast(t.vault.restored);
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`
    <section class="past">
      <label>${t.vault.version(at + 1, versions.length)}
        <input type="range" min="0" max=${versions.length - 1} value=${at} disabled=${versions.length < 2}
          onInput=${(/** @type {any} */ event) => setChosen(Number(event.target.value))} />
      </label>
      <p class="row middle">
        <strong>${momentName(version.at) || t.vault.unseen}</strong>
        <span class="grow">${t.vault.by(version.by)}${version.run && html`, <a href=${address('runs', [version.run])}>${t.vault.run}</a>`}</span>
        ${!isNow && may('vault', 'write') && html`<${Button} icon="undo" onClick=${restore}>${t.vault.restore}<//>`}
      </p>
      <${Shown} of=${texts}>${(/** @type {any} */ both) => html`<${Diff} before=${both.before} after=${both.after} />`}<//>
    </section>`;
}

/** @param {string} path @param {any} version @param {AbortSignal} signal */
const textOf = async (path, version, signal) =>
  (await send('GET', `/api/notes/${inAddress(path)}`, { query: { as: 'raw', version: version.version }, signal })).text();
