/** Activity: the audit: calls, live and searched, and whether it was altered. */

import { html, useEffect, useState } from '../../vendor/view.js';
import { get } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address, go, noteAddress } from '../../lib/router.js';
import { t } from '../../lib/strings.js';
import { momentName } from '../../lib/times.js';
import { Button, Empty, Shown, Tag } from '../../ui/parts.js';
import { VirtualTable } from '../../ui/virtual-list.js';

const PAGE = 200;
const MOST = 10_000;
const PAUSE_MS = 5_000;
const OWN = 'GET /api/audit'; // what this screen asks itself
const TYPES = ['api_call', 'mcp_call', 'module_call', 'agent_start', 'agent_end', 'suggestion', 'write', 'audit'];

/** @param {import('../index.js').ScreenProps} props */
export default function Activity({ query }) {
  const asked = Object.fromEntries(['type', 'source', 'module', 'path', 'success', 'since'].map((name) => [name, query.get(name) ?? '']));
  const [count, setCount] = useState(PAGE);
  const [isLive, setLive] = useState(true);
  const [words, setWords] = useState('');
  const [chosen, choose] = useState('');
  const listed = useLoad((signal) => pages(asked, count, signal), [asked, count]);
  useEvents([''], () => { if (isLive) listed.reload(); });
  useEffect(() => {
    if (!isLive) return undefined;
    const timer = setInterval(() => { if (document.visibilityState === 'visible') listed.reload(); }, PAUSE_MS);
    return () => clearInterval(timer);
  }, [isLive]);
  const change = (/** @type {string} */ name) => (/** @type {any} */ event) => { setCount(PAGE); go(address('activity', [], { ...asked, [name]: event.target.value })); };
  return html`
    <div class="page activity">
      <header><h1>${t.activity.title}</h1><${Verified} /></header>
      <form class="row filters" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
        <label class="grow">${t.activity.find}<input type="search" value=${words} onInput=${(/** @type {any} */ event) => setWords(event.target.value)} /></label>
        <label>${t.activity.type}<select value=${asked.type} onChange=${change('type')}><option value="">${t.activity.all}</option>${TYPES.map((one) => html`<option key=${one} value=${one}>${t.activity.types[one]}</option>`)}</select></label>
        <label class="grow">${t.activity.source}<input value=${asked.source} onChange=${change('source')} /></label>
        <label class="grow">${t.activity.module}<input value=${asked.module} onChange=${change('module')} /></label>
        <label class="grow">${t.activity.path}<input value=${asked.path} onChange=${change('path')} /></label>
        <label>${t.activity.success}<select value=${asked.success} onChange=${change('success')}><option value="">${t.activity.all}</option><option value="true">${t.activity.done}</option><option value="false">${t.activity.failed}</option></select></label>
        <label class="check"><input type="checkbox" checked=${isLive} onChange=${() => setLive(!isLive)} />${t.activity.live}</label>
      </form>
      <${Shown} of=${listed}>${(/** @type {any} */ found) => {
        const rows = found.events.filter((/** @type {any} */ one) => matches(one, words));
        return html`
          ${rows.length === 0 ? html`<${Empty}>${t.activity.empty}<//>` : html`
            <${VirtualTable} count=${rows.length} height=${40} label=${t.activity.title} row=${(/** @type {number} */ index) => html`<${Row} of=${rows[index]} isChosen=${rows[index].hash === chosen} choose=${choose} />`}
              head=${html`<div class="line" role="row" aria-rowindex="1">${t.activity.columns.map((one, index) => html`<span key=${one} role="columnheader" class=${index > 2 ? 'wide' : ''}>${one}</span>`)}</div>`} />`}
          <${Chosen} of=${rows.find((/** @type {any} */ one) => one.hash === chosen)} />
          ${found.cursor && count < MOST && html`<p class="row"><${Button} onClick=${() => setCount(Math.min(MOST, count * 3))}>${t.activity.more}<//><span class="soft">${t.activity.shown(found.events.length)}</span></p>`}`;
      }}<//>
      <p class="soft">${t.activity.own}</p>
    </div>`;
}

/** As many as wanted, a thousand at a time; without what this screen asks itself. @param {Record<string, string>} asked @param {number} count @param {AbortSignal} signal */
async function pages(asked, count, signal) {
  const events = [];
  let cursor = '';
  do {
    const told = await get('/api/audit', { ...asked, limit: Math.min(1_000, count - events.length), cursor }, signal);
    events.push(...told.events);
    cursor = told.cursor ?? '';
  } while (cursor && events.length < count);
  return { events: events.filter((one) => one.target_endpoint !== OWN), cursor };
}

/** @param {any} one @param {string} words */
function matches(one, words) {
  const text = [one.source_id, one.target_module, one.target_endpoint, one.error, one.run, ...one.paths, ...one.names].join(' ').toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** @param {{of: any, isChosen: boolean, choose: (hash: string) => void}} props */
const Row = ({ of, isChosen, choose }) => html`
  <span role="cell"><button type="button" class="plain-button" aria-expanded=${isChosen} onClick=${() => choose(isChosen ? '' : of.hash)}>${momentName(of.timestamp)}</button></span>
  <span role="cell">${of.source_id || of.source_type}</span>
  <span role="cell">${of.success ? '' : html`<${Tag} kind="bad">${of.status ?? t.activity.failed}<//> `}${of.target_endpoint}</span>
  <span role="cell" class="soft wide">${of.paths.join(', ')}</span>
  <span role="cell" class="soft wide">${t.activity.took(of.duration_ms)}</span>`;

/** @param {{of: any}} props */
const Chosen = ({ of }) => (of ? html`
  <section class="card"><dl class="facts">
    ${Object.entries(of).filter(([, value]) => value !== null && value !== '' && (typeof value !== 'object' || Object.keys(value).length > 0)).map(([name, value]) => html`
      <div key=${name}><dt>${name}</dt><dd>${name === 'run' ? html`<a href=${address('runs', [String(value)])}>${value}</a>` : name === 'paths' ? /** @type {string[]} */ (value).map((one) => html`<a key=${one} href=${noteAddress(one)}>${one}</a> `) : typeof value === 'object' ? JSON.stringify(value) : String(value)}</dd></div>`)}
  </dl></section>` : null);

/** Whether the chain of events holds; asked once, and again on demand. */
function Verified() {
  const verdict = useLoad((signal) => get('/api/audit/verify', {}, signal), []);
  return html`<${Shown} of=${verdict}>${(/** @type {any} */ told) => html`
    <${Tag} kind=${told.holds ? 'good' : 'bad'}>${told.holds ? t.activity.holds(told.lines) : t.activity.broken}<//><${Button} onClick=${verdict.reload}>${t.activity.verify}<//>
    ${told.findings.length > 0 && html`<ul class="problem">${told.findings.slice(0, 20).map((/** @type {string} */ one) => html`<li key=${one}>${one}</li>`)}</ul>`}`}<//>`;
}
