/** Hooks: the programs that run when something happens, their scripts, and what they did. */

import { html } from '../../vendor/view.js';
import { get } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address } from '../../lib/router.js';
import { t } from '../../lib/strings.js';
import { ago } from '../../lib/times.js';
import { Empty, Shown, Tag } from '../../ui/parts.js';
import { Hook } from './hook.js';
import { HookRun } from './hook-run.js';

/** @param {import('../index.js').ScreenProps} props */
export default function Hooks({ rest }) {
  const [kind = '', chosen = ''] = rest;
  const listed = useLoad((signal) => get('/api/hooks', {}, signal), []);
  const runs = useLoad((signal) => get('/api/hooks/runs', { limit: 50 }, signal), []);
  const again = () => { listed.reload(); runs.reload(); };
  useEvents(['hook.', 'vault.problem'], again);
  const hook = listed.data?.hooks.find((/** @type {any} */ one) => one.name === chosen);
  return html`
    <div class="panes hooks ${chosen ? 'has-choice' : ''}">
      <div class="list">
        <header><h1>${t.hooks.title}</h1></header>
        <${Shown} of=${listed}>${(/** @type {any} */ found) => html`
          ${found.problems.map((/** @type {string} */ one) => html`<p class="problem" role="alert" key=${one}>${one}</p>`)}
          <ul class="rows">${found.hooks.map((/** @type {any} */ one) => html`<li key=${one.name}><a href=${address('hooks', ['hook', one.name])} aria-current=${one.name === chosen}>
            <span class="what"><span>${one.name}</span>${one.problem ? html`<${Tag} kind="bad">${t.hooks.stopped}<//>` : one.blocking && html`<${Tag}>${t.hooks.blocking}<//>`}</span>
            <span class="soft">${one.events.join(', ')}${one.description ? ` · ${one.description}` : ''}</span></a></li>`)}</ul>
          ${found.hooks.length === 0 && html`<${Empty}>${t.hooks.empty}<//>`}`}
        <//>
        <h2 class="in-list">${t.hooks.last}</h2>
        <${Shown} of=${runs}>${(/** @type {any} */ found) => html`
          ${found.runs.length === 0 && html`<p class="in-list soft">${t.hooks.noRuns}</p>`}
          <ul class="rows">${found.runs.map((/** @type {any} */ one) => html`<li key=${one.id}><a href=${address('hooks', ['run', one.id])} aria-current=${one.id === chosen}>
            <span class="what"><span>${one.hook}</span><span class="soft">${t.hooks.ms(one.took_ms)}</span></span>
            <span class="soft">${one.event} · ${ago(one.at)} · ${one.decision}</span></a></li>`)}</ul>`}<//>
      </div>
      <div class="chosen">${kind === 'run' && chosen ? html`<${HookRun} key=${chosen} id=${chosen} onChange=${again} />` : hook ? html`<${Hook} key=${chosen} of=${hook} onChange=${again} />` : html`<div class="inside"><${Empty}>${t.hooks.nothing}<//></div>`}</div>
    </div>`;
}
