/** Usage: money and tokens by day, agent, model and cause; what is left; and stopping all work. */

import { html, useState } from '../../vendor/view.js';
import { get, post } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address } from '../../lib/router.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { momentName } from '../../lib/times.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Button, Empty, Shown, Tag } from '../../ui/parts.js';
import { Bars, DayBars } from './bars.js';

const DAYS = [7, 30, 90];

/** @typedef {'usd' | 'tokens' | 'requests'} Measure */

/** What a row of usage comes to. @param {any} row @param {Measure} measure @returns {number} */
const valueOf = (row, measure) => (measure === 'tokens' ? row.input_tokens + row.output_tokens + row.cache_read_tokens + row.cache_written_tokens : row[measure]);

/** @param {import('../index.js').ScreenProps} props */
export default function Usage() {
  const [days, setDays] = useState(7);
  const [measure, setMeasure] = useState(/** @type {Measure} */ ('usd'));
  const usage = useLoad((signal) => get('/api/usage', { days }, signal), [days]);
  const mayRead = may('curator', 'read');
  const runs = useLoad((signal) => (mayRead ? get('/api/runs', { limit: 200, all: true }, signal) : Promise.resolve({ runs: [] })), [mayRead]);
  useEvents(['run.finished', 'budget.', 'chat.session.message'], () => { usage.reload(); runs.reload(); });
  const show = (/** @type {number} */ value) => (measure === 'usd' ? t.usage.money(value) : value.toLocaleString());
  const rows = (/** @type {any[]} */ found) => found.map((one) => ({ name: one.name || t.usage.none, value: valueOf(one, measure) })).filter((one) => one.value > 0).sort((one, other) => other.value - one.value);
  const runName = (/** @type {string} */ id) => { const found = runs.data?.runs.find((/** @type {any} */ one) => one.id === id); return found ? `${found.watcher ?? found.agent}: ${found.reason}` : id; };
  return html`
    <div class="page usage">
      <header><h1>${t.usage.title}</h1>${may('curator', 'admin') && html`<${Stops} />`}</header>
      <form class="row filters" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
        <label>${t.usage.days}<select value=${String(days)} onChange=${(/** @type {any} */ event) => setDays(Number(event.target.value))}>${DAYS.map((one) => html`<option key=${one} value=${String(one)}>${t.usage.last(one)}</option>`)}</select></label>
        <label>${t.usage.measure}<select value=${measure} onChange=${(/** @type {any} */ event) => setMeasure(event.target.value)}>${Object.entries(t.usage.measures).map(([name, says]) => html`<option key=${name} value=${name}>${says}</option>`)}</select></label>
      </form>
      <${Shown} of=${usage}>${(/** @type {any} */ found) => html`
        <${Limits} usage=${found} />
        ${!found.spent || found.spent.total.requests === 0 ? html`<${Empty}>${found.spent ? t.usage.empty : t.usage.noModel}<//>` : html`
          <section><h2>${t.usage.byDay} <span class="soft">${t.usage.sum(show(valueOf(found.spent.total, measure)))}</span></h2>
            <${DayBars} days=${days} rows=${found.spent.days.map((/** @type {any} */ one) => ({ date: one.name, value: valueOf(one, measure) }))} show=${show} /></section>
          <div class="charts">
            <${Bars} title=${t.usage.byAgent} rows=${rows(found.spent.agents)} show=${show} />
            <${Bars} title=${t.usage.byModel} rows=${rows(found.spent.models)} show=${show} />
            <${Bars} title=${t.usage.byRun} rows=${rows(found.spent.runs).map((one) => ({ ...one, name: runName(one.name), to: address('runs', [one.name]) }))} show=${show} />
            <${Bars} title=${t.usage.byCause} rows=${rows(found.spent.causes).map((one) => ({ ...one, name: causeName(one.name) }))} show=${show} />
          </div>
          ${found.spent.notes.map((/** @type {string} */ one) => html`<p key=${one} class="soft">${one}</p>`)}`}`}<//>
    </div>`;
}

/** A cause is named by when it came. @param {string} id */
function causeName(id) {
  const found = /^c-(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)/.exec(id);
  return found ? t.usage.changeAt(momentName(`${found[1]}-${found[2]}-${found[3]}T${found[4]}:${found[5]}:${found[6]}Z`)) : id;
}

/** What is used up of each limit. @param {{usage: any}} props */
function Limits({ usage: { budget, spent, windows } }) {
  const limits = [
    [t.usage.runsHour, budget.runs_last_hour, budget.runs_per_hour, String],
    [t.usage.runsDay, budget.runs_last_day, budget.runs_per_day, String],
    ...(spent ? [[t.usage.hour, spent.usd_last_hour, spent.limits.usd_per_hour, t.usage.money], [t.usage.day, spent.usd_last_day, spent.limits.usd_per_day, t.usage.money], [t.usage.chats, spent.usd_last_day_conversations, spent.limits.conversations_usd_per_day, t.usage.money]] : []),
    ...Object.entries(windows ?? {}).map(([name, one]) => [t.usage.window(name), one.utilization, 100, (/** @type {number} */ percent) => `${Math.round(percent)} %`]),
  ];
  return html`<ul class="limits">${limits.map(([name, used, most, show]) => html`
    <li key=${name}><span id=${`limit-${name}`}>${name}</span><meter min="0" max=${most || 1} high=${most * 0.8} value=${used} aria-labelledby=${`limit-${name}`}></meter><span class="soft">${t.usage.of(show(used), show(most))}</span></li>`)}</ul>`;
}

/** Pauses all work, or ends what is at work too. */
function Stops() {
  const tasks = useLoad((signal) => get('/api/tasks', {}, signal), []);
  const [isAsked, setAsked] = useState(false);
  const act = async (/** @type {string} */ path, /** @type {(told: any) => string} */ says) => {
    try {
      toast(says(await post(path)));
    } catch (error) {
      toastProblem(error);
    }
    setAsked(false);
    tasks.reload();
  };
  const isPaused = tasks.data?.paused;
  if (isAsked) return html`<p class="row" role="alert"><span>${t.usage.sure}</span><${Button} kind="danger" icon="stop" onClick=${() => act('/api/agents/stop', (told) => t.usage.stopped(told.stopped.length))}>${t.usage.stopNow}<//><${Button} onClick=${() => setAsked(false)}>${t.app.cancel}<//></p>`;
  return html`
    ${isPaused && html`<${Tag} kind="wait">${t.watches.paused}<//>`}
    <${Button} onClick=${() => act(isPaused ? '/api/resume' : '/api/pause', () => (isPaused ? t.usage.goesOn : t.usage.waits))}>${isPaused ? t.runs.resume : t.runs.pause}<//>
    <${Button} kind="danger" icon="stop" onClick=${() => setAsked(true)}>${t.usage.stop}<//>`;
}
