/** Reflections: the journal's agents, when each runs, and what they wrote. */

import { html, useState } from '../../vendor/view.js';
import { ask, get, inAddress, post } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { noteAddress } from '../../lib/router.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { ago } from '../../lib/times.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Button, Command, Tag } from '../../ui/parts.js';
import { readNote } from '../vault/note-text.js';
import { withSchedule } from './schedule.js';

export function Reflections() {
  const page = useLoad((signal) => get('/api/modules/daily/agents', {}, signal), []);
  useEvents(['daily.', 'file.'], (told) => { if (told.event === 'reset' || /^Daily\/\.agents\/|^$/.test(String(told.data.path ?? ''))) page.reload(); });
  const agents = /** @type {any[]} */ (page.data?.agents ?? []);
  return html`
    <section class="reflections" aria-label=${t.journal.reflections}>
      <h2>${t.journal.reflections}</h2>
      ${agents.map((one) => html`<${Reflection} key=${one.name} of=${one} onChange=${page.reload} />`)}
    </section>`;
}

/** @param {{of: any, onChange: () => void}} props */
function Reflection({ of, onChange }) {
  const [isBusy, setBusy] = useState(false);
  const mayWrite = may('daily', 'write');
  const run = async () => {
    setBusy(true);
    try {
      const told = await post(`/api/modules/daily/agents/${encodeURIComponent(of.name)}/run`);
      toast(`${t.journal.outcomes[told.status] ?? told.status} ${told.error ?? ''}`, told.status === 'failed' ? { kind: 'problem' } : {});
      onChange();
    } catch (error) {
      toastProblem(error);
    }
    setBusy(false);
  };
  const approve = async () => {
    try {
      await post('/api/modules/daily/commands/approve', { name: of.name });
      toast(t.journal.approved(of.displayName));
      onChange();
    } catch (error) {
      toastProblem(error);
    }
  };
  const when = of.schedule.enabled ? t.journal.runsAt(of.schedule.day ? t.journal.weekday[of.schedule.day] : t.journal.everyDay, of.schedule.time) : t.journal.isOff;
  return html`
    <details class="reflection"><summary>${of.displayName} ${of.approved ? html`<span class="soft">${when}</span>` : html`<${Tag} kind="wait">${t.modules.states.unapproved}<//>`}</summary>
      ${of.description && html`<p class="soft">${of.description}</p>`}
      <p class="soft">${of.state.lastRunAt ? `${t.journal.lastRun} ${ago(of.state.lastRunAt)}` : t.journal.neverRan}
        ${of.state.lastProcessedDate && html` <a href=${noteAddress(of.outputPath.replaceAll('{date}', of.state.lastProcessedDate))}>${t.journal.seeOutput}</a>`}</p>
      ${!of.approved && html`<p>${t.journal.unapproved} <a href=${noteAddress(of.file)}>${t.journal.readFile}</a></p><${Command}>parachute daily approve ${of.name}<//>${mayWrite && html`<p><${Button} onClick=${approve}>${t.journal.approve}<//></p>`}`}
      ${mayWrite && of.approved && html`<p><${Button} disabled=${isBusy} onClick=${run}>${t.journal.runNow}<//></p>`}
      ${may('vault', 'write') && html`<${Schedule} of=${of} onChange=${onChange} />`}
    </details>`;
}

/** @param {{of: any, onChange: () => void}} props */
function Schedule({ of, onChange }) {
  const [wish, setWish] = useState(/** @type {any} */ ({ enabled: of.schedule.enabled, time: of.schedule.time, day: of.schedule.day ?? '' }));
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      // What Daily ships has no file yet; this makes one, and another's edit meanwhile refuses it.
      const held = of.shipped ? null : await readNote(of.file);
      const headers = { 'Content-Type': 'text/markdown', ...(held ? { 'If-Match': `"${held.hash}"` } : { 'If-None-Match': '*' }) };
      await ask('PUT', `/api/notes/${inAddress(of.file)}`, { body: withSchedule(held ? held.text : of.text, wish), headers });
      toast(t.journal.scheduled);
      onChange();
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`
    <form class="form" onSubmit=${save}>
      <label class="check"><input type="checkbox" checked=${wish.enabled} onChange=${(/** @type {any} */ event) => setWish({ ...wish, enabled: event.target.checked })} /> ${t.journal.runsByItself}</label>
      <div class="row"><label>${t.journal.time}<input type="time" required value=${wish.time} onInput=${(/** @type {any} */ event) => setWish({ ...wish, time: event.target.value })} /></label>
        <label>${t.journal.day}<select value=${wish.day} onChange=${(/** @type {any} */ event) => setWish({ ...wish, day: event.target.value })}><option value="">${t.journal.everyDay}</option>${Object.entries(t.journal.weekday).map(([day, name]) => html`<option key=${day} value=${day}>${name}</option>`)}</select></label></div>
      <p><${Button} type="submit">${t.journal.saveSchedule}<//></p>
    </form>`;
}
