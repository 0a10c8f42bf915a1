/** Runs: what agents, modules and programs did, why, what it changed, and the way back. */

import { html, useState } from '../../vendor/view.js';
import { get, post } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address, noteAddress } from '../../lib/router.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { ago, momentName } from '../../lib/times.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { UnifiedDiff } from '../../ui/diff.js';
import { Icon } from '../../ui/icon.js';
import { Button, Empty, Shown, Tag } from '../../ui/parts.js';

const PAGE = 60;
const KINDS = /** @type {Record<string, 'good' | 'bad' | 'wait'>} */ ({ changed: 'good', failed: 'bad', suggested: 'wait', running: 'wait' });

/** @param {import('../index.js').ScreenProps} props */
export default function Runs({ rest }) {
  const chosen = rest[0] ?? '';
  const [count, setCount] = useState(PAGE);
  const listed = useLoad((signal) => get('/api/runs', { limit: count }, signal), [count]);
  const tasks = useLoad((signal) => get('/api/tasks', {}, signal), []);
  useEvents(['task.', 'run.', 'file.'], () => { listed.reload(); tasks.reload(); });
  return html`
    <div class="panes ${chosen ? 'has-choice' : ''}">
      <div class="list">
        <header><h1>${t.runs.title}</h1>${may('curator', 'admin') && tasks.data && html`<${Pause} isPaused=${tasks.data.paused} onDone=${tasks.reload} />`}</header>
        ${tasks.data?.tasks.length > 0 && html`<ul class="rows">${tasks.data.tasks.map((/** @type {any} */ one) => html`
          <li key=${one.id}><a href=${noteAddress(one.watcher)}><span class="what"><span>${one.watcher}</span><${Tag} kind="wait">${t.runs.waiting}<//></span><span class="soft">${one.reason ?? t.runs.paths(one.paths.length)}</span></a></li>`)}</ul>`}
        <${Shown} of=${listed}>${(/** @type {any} */ found) => html`
          <ul class="rows">${found.runs.map((/** @type {any} */ one) => html`<li key=${one.id}><${Row} run=${one} isChosen=${one.id === chosen} /></li>`)}</ul>
          ${found.runs.length === 0 && html`<${Empty}>${t.runs.empty}<//>`}
          ${found.runs.length === count && html`<${Button} class="more" onClick=${() => setCount(count + PAGE)}>${t.runs.more}<//>`}`}
        <//>
      </div>
      <div class="chosen">${chosen ? html`<${Run} key=${chosen} id=${chosen} />` : html`<div class="inside"><${Empty}>${t.runs.nothing}<//></div>`}</div>
    </div>`;
}

/** @param {{run: any, isChosen: boolean}} props */
const Row = ({ run, isChosen }) => html`
  <a href=${address('runs', [run.id])} aria-current=${isChosen}>
    <span class="what"><span>${run.wrote?.[0] ?? run.watcher ?? run.agent}${run.wrote?.length > 1 ? ` +${run.wrote.length - 1}` : ''}</span><${Outcome} run=${run} /></span>
    <span class="soft">${run.reason}<br />${run.agent} · ${ago(run.started)}${run.cost_usd > 0 ? ` · ${t.runs.cost(run.cost_usd)}` : ''}</span>
  </a>`;

/** @param {{run: any}} props */
const Outcome = ({ run }) => (run.undone ? html`<${Tag}>${t.runs.undone}<//>` : html`<${Tag} kind=${KINDS[run.outcome] ?? 'plain'}>${t.runs.outcome[run.outcome] ?? run.outcome}<//>`);

/** @param {{isPaused: boolean, onDone: () => void}} props */
function Pause({ isPaused, onDone }) {
  const toggle = async () => {
    try {
      await post(isPaused ? '/api/resume' : '/api/pause');
      onDone();
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`<${Button} onClick=${toggle}>${isPaused ? t.runs.resume : t.runs.pause}<//>`;
}

/** @param {{id: string}} props */
function Run({ id }) {
  const place = encodeURIComponent(id);
  const run = useLoad((signal) => get(`/api/runs/${place}`, {}, signal), [id]);
  const diff = useLoad((signal) => get(`/api/runs/${place}/diff`, { cascade: true }, signal), [id]);
  const [isAsked, setAsked] = useState(false);
  useEvents(['run.'], (told) => { if (told.event === 'reset' || told.data.run === id || told.data.runs?.includes?.(id)) { run.reload(); diff.reload(); } });
  const undo = async () => {
    try {
      const told = await post(`/api/runs/${place}/undo`);
      setAsked(false);
      run.reload();
      const kept = Object.keys(told.kept).length;
      toast(kept ? t.runs.undoneKept(kept) : t.runs.undoneAll(told.paths.length));
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`<article class="inside"><${Shown} of=${run}>${(/** @type {any} */ found) => html`
    <header class="row middle">
      <a class="back button" href=${address('runs')}><${Icon} name="left" />${t.runs.title}</a>
      <h1 class="grow small">${found.reason || found.watcher || found.agent}</h1>
      <${Outcome} run=${found} />
    </header>
    <dl class="facts">
      <div><dt>${t.runs.who}</dt><dd>${found.agent ?? found.watcher}</dd></div>
      <div><dt>${t.runs.when}</dt><dd>${momentName(found.started)}</dd></div>
      ${found.model && html`<div><dt>${t.runs.model}</dt><dd>${found.model}</dd></div>`}
      ${found.cost_usd > 0 && html`<div><dt>${t.runs.price}</dt><dd>${t.runs.cost(found.cost_usd)}</dd></div>`}
      <div><dt>${t.runs.cause}</dt><dd>${(found.causes ?? []).map((/** @type {any} */ one) => html`<span key=${one.id}>${t.runs.causes[one.kind] ?? one.kind}${one.path && html`: <a href=${noteAddress(one.path)}>${one.path}</a>`} </span>`)}</dd></div>
      ${found.reviewed?.length > 0 && html`<div><dt>${t.runs.read}</dt><dd>${found.reviewed.map((/** @type {any} */ one) => one.path ?? one).join(', ')}</dd></div>`}
    </dl>
    <${Shown} of=${diff}>${(/** @type {any} */ changed) => html`
      ${!found.undone && changed.files.length > 0 && may('curator', 'write') && html`<${Undo} changed=${changed} isAsked=${isAsked} ask=${setAsked} undo=${undo} />`}
      ${changed.files.map((/** @type {any} */ one) => html`<section key=${one.path} class="changed"><h2><a href=${noteAddress(one.path)}>${one.path}</a></h2>
        ${one.diff ? html`<${UnifiedDiff} text=${one.diff} />` : html`<p class="soft">${t.app.noDiff}</p>`}</section>`)}
      ${changed.files.length === 0 && html`<p class="soft">${t.runs.wroteNothing}</p>`}`}
    <//>`}<//></article>`;
}

/** @param {{changed: any, isAsked: boolean, ask: (isAsked: boolean) => void, undo: () => void}} props */
const Undo = ({ changed, isAsked, ask, undo }) => (isAsked ? html`
  <section class="card" role="alert">
    <p>${t.runs.takesBack(changed.runs.length, changed.files.length)}</p>
    <ul>${changed.files.map((/** @type {any} */ one) => html`<li key=${one.path}>${one.path}</li>`)}</ul>
    <p class="row"><${Button} kind="danger" icon="undo" onClick=${undo}>${t.runs.undoNow}<//><${Button} onClick=${() => ask(false)}>${t.app.cancel}<//></p>
  </section>` : html`<p class="actions"><${Button} icon="undo" onClick=${() => ask(true)}>${t.runs.undo}<//></p>`);
