/** Twins: entities that may be the same, and making them one. */

import { html, useState } from '../../vendor/view.js';
import { get, post } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address } from '../../lib/router.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Button, Empty, Shown } from '../../ui/parts.js';

/** @param {{entity?: string, onMerged?: () => void}} props `entity`: only those of that one */
export function Twins({ entity = '', onMerged }) {
  const loaded = useLoad((signal) => get('/api/brain/twins', { entity }, signal), [entity]);
  useEvents(['brain.entity.'], loaded.reload);
  return html`<${Shown} of=${loaded}>${(/** @type {any} */ found) => (found.twins.length === 0
    ? (entity ? null : html`<${Empty}>${t.brain.noTwins}<//>`)
    : html`<section class="twins"><h2>${t.brain.twins}</h2>${found.twins.slice(0, 100).map((/** @type {any} */ one) => html`
        <${Pair} key=${`${one.entity.path} ${one.other.path}`} one=${one.entity} other=${one.other} onDone=${() => { loaded.reload(); onMerged?.(); }} />`)}</section>`)}<//>`;
}

/** @param {{one: any, other: any, onDone: () => void}} props */
function Pair({ one, other, onDone }) {
  const [isBusy, setBusy] = useState(false);
  const merge = async (/** @type {any} */ keep, /** @type {any} */ gone) => {
    setBusy(true);
    try {
      const done = await post('/api/brain/merge', { keep: keep.para_id, other: gone.para_id });
      toast(t.brain.merged(keep.name, done.notes.length), { action: t.journal.undo, act: () => undo(done.run, onDone) });
      onDone();
    } catch (error) {
      toastProblem(error);
    }
    setBusy(false);
  };
  return html`
    <div class="card row middle">
      <p class="grow"><a href=${address('brain', ['entity', one.para_id])}>${one.name}</a> <span class="soft">${one.path}</span><br />
        <a href=${address('brain', ['entity', other.para_id])}>${other.name}</a> <span class="soft">${other.path}</span></p>
      ${may('brain', 'write') && [[one, other], [other, one]].map(([keep, gone]) => html`<${Button} key=${keep.path} disabled=${isBusy} title=${keep.path} onClick=${() => merge(keep, gone)}>${t.brain.keep(keep.name)}<//>`)}
    </div>`;
}

/** @param {string} run @param {() => void} onDone */
async function undo(run, onDone) {
  try {
    await post(`/api/runs/${encodeURIComponent(run)}/undo`);
    toast(t.brain.unmerged);
    onDone();
  } catch (error) {
    toastProblem(error);
  }
}
