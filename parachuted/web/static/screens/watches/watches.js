/** Watches: which notes watch which, live; what a change would set off; and drawing a new watch. */

import { html, useMemo, useState } from '../../vendor/view.js';
import { get, post } from '../../lib/api.js';
import { useLoad } from '../../lib/load.js';
import { address, noteAddress } from '../../lib/router.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { ago } from '../../lib/times.js';
import { Empty, Shown, Tag } from '../../ui/parts.js';
import { DrawWatch } from './draw.js';
import { useLive } from './live.js';
import { WatchMap } from './map.js';
import { shapeOf } from './shape.js';

export default function Watches() {
  const watches = useLoad((signal) => get('/api/watches', {}, signal), []);
  const tasks = useLoad((signal) => get('/api/tasks', {}, signal), []);
  const runs = useLoad((signal) => get('/api/runs', { limit: 50 }, signal), []);
  const mayAsk = may('system', 'read');
  const usage = useLoad((signal) => (mayAsk ? get('/api/usage', { days: 1 }, signal) : Promise.resolve(null)), [mayAsk]);
  const [chosen, choose] = useState('');
  const [drawn, setDrawn] = useState(/** @type {{from: string, to: string} | null} */ (null));
  const shape = useMemo(() => shapeOf(watches.data?.watches ?? []), [watches.data]);
  const reload = () => { for (const one of [watches, tasks, runs, usage]) one.reload(); };
  const live = useLive(shape, tasks.data?.tasks ?? [], reload);
  const node = shape.nodes.find((one) => one.id === chosen);
  const path = node?.paths.length === 1 ? node.paths[0] : '';
  const plan = useLoad((signal) => (path ? post('/api/bubble/plan', { path }) : Promise.resolve(null)), [path, watches.data]);
  const planned = new Map((plan.data?.runs ?? []).map((/** @type {any} */ one) => /** @type {[string, number]} */ ([one.watcher, one.depth])));
  const known = [...new Set(shape.nodes.flatMap((one) => (one.paths.length === 1 ? one.paths : [])))];
  return html`
    <div class="page watches">
      <header><h1>${t.watches.title}</h1>${usage.data && html`<${Budget} usage=${usage.data} />`}</header>
      <${Shown} of=${watches}>${(/** @type {any} */ found) => html`
        <div class="watch-beside">
          <div class="stack">
            ${found.watches.length === 0 ? html`<${Empty}>${t.watches.empty}<//>` : html`<${WatchMap} shape=${shape} now=${{ ...live, planned }} chosen=${chosen} choose=${choose} draw=${(/** @type {string} */ from, /** @type {string} */ to) => setDrawn({ from, to })} />`}
            <p class="soft">${t.watches.how}</p>
            <${Happening} tasks=${tasks.data?.tasks ?? []} isPaused=${tasks.data?.paused} runs=${(runs.data?.runs ?? []).filter((/** @type {any} */ one) => one.outcome !== 'running' && found.watches.some((/** @type {any} */ watch) => watch.watcher === one.watcher)).slice(0, 8)} />
          </div>
          <aside class="stack">
            ${node && html`<${Chosen} node=${node} plan=${plan} last=${(runs.data?.runs ?? []).find((/** @type {any} */ one) => one.watcher === node.id)} />`}
            ${may('vault', 'write') && html`<section class="card"><${DrawWatch} from=${drawn?.from ?? path} to=${drawn?.to ?? ''} known=${known} onDone=${() => { setDrawn(null); reload(); }} onCancel=${drawn ? () => setDrawn(null) : undefined} /></section>`}
          </aside>
        </div>`}<//>
    </div>`;
}

/** What may still be spent and run. @param {{usage: any}} props */
function Budget({ usage }) {
  const { budget, spent } = usage;
  return html`<p class="soft">${t.watches.runsLeft(Math.max(0, budget.runs_per_hour - budget.runs_last_hour))}${spent && ` · ${t.watches.moneyLeft(Math.max(0, spent.limits.usd_per_day - spent.usd_last_day))}`}</p>`;
}

/** @param {{node: import('./shape.js').WatchNode, plan: import('../../lib/load.js').Loaded<any>, last: any}} props */
function Chosen({ node, plan, last }) {
  const { watch } = node;
  return html`
    <section class="card stack">
      <h2>${node.paths.length === 1 ? html`<a href=${noteAddress(node.paths[0])}>${node.paths[0]}</a>` : node.name}</h2>
      ${node.paths.length > 1 && html`<ul class="plain">${node.paths.slice(0, 30).map((one) => html`<li key=${one}><a href=${noteAddress(one)}>${one}</a></li>`)}</ul>`}
      ${watch && html`<dl class="facts">
        <div><dt>${t.watches.watchesWhat}</dt><dd>${watch.patterns.map((/** @type {string} */ one) => html`<code key=${one}>${one}</code> `)}</dd></div>
        <div><dt>${t.watches.freshness}</dt><dd>${watch.unseen.length ? html`${t.watches.unseen(watch.unseen.length)}: ${watch.unseen.join(', ')}` : t.watches.fresh}</dd></div>
        ${last && html`<div><dt>${t.watches.lastRun}</dt><dd><a href=${address('runs', [last.id])}>${last.reason || t.runs.outcome[last.outcome]}</a> <span class="soft">${ago(last.started)}</span></dd></div>`}
        ${[...watch.problems, ...watch.unmatched.map(t.watches.unmatched)].map((one) => html`<div key=${one}><dt><${Tag} kind="bad">${t.watches.problem}<//></dt><dd>${one}</dd></div>`)}
      </dl>`}
      ${node.paths.length === 1 && html`<div><h3>${t.watches.plan}</h3><${Shown} of=${plan}>${(/** @type {any} */ told) => (!told ? null : told.runs.length === 0 ? html`<p class="soft">${t.watches.noPlan}</p>` : html`
        <p>${t.watches.planSays(told.most_runs, told.most_cost_usd)}</p>
        <ol class="plan">${told.runs.map((/** @type {any} */ one) => html`<li key=${one.watcher}>${one.watcher} <span class="soft">${t.watches.because(one.because)}</span></li>`)}</ol>
        ${told.loops.map((/** @type {string[]} */ ring) => html`<p class="soft" key=${ring.join()}>${t.watches.loop(ring.join(' → '))}</p>`)}`)}<//></div>`}
    </section>`;
}

/** @param {{tasks: any[], runs: any[], isPaused: boolean}} props */
const Happening = ({ tasks, runs, isPaused }) => html`
  <section aria-live="polite">
    <h2>${t.watches.now} ${isPaused && html`<${Tag} kind="wait">${t.watches.paused}<//>`}</h2>
    <ul class="plain happening">
      ${tasks.map((one) => html`<li key=${one.id}><${Tag} kind="wait">${t.watches.states[one.state] ?? one.state}<//> <a href=${noteAddress(one.watcher)}>${one.watcher}</a> <span class="soft">${one.reason ?? t.runs.paths(one.paths.length)}</span></li>`)}
      ${runs.map((one) => html`<li key=${one.id}><${Tag} kind=${one.outcome === 'failed' ? 'bad' : 'good'}>${t.runs.outcome[one.outcome] ?? one.outcome}<//> <a href=${address('runs', [one.id])}>${one.watcher}</a> <span class="soft">${one.reason} · ${ago(one.started)}${one.cost_usd > 0 ? ` · ${t.runs.cost(one.cost_usd)}` : ''}</span></li>`)}
    </ul>
    ${tasks.length + runs.length === 0 && html`<p class="soft">${t.watches.quiet}</p>`}
  </section>`;
