/** Entity: one thing that is known: its text, its fields, its facts with their dates, its links, and where it is named. */

import { html, useState } from '../../vendor/view.js';
import { ask, get, inAddress } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address, go, noteAddress } from '../../lib/router.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Markdown } from '../../ui/markdown.js';
import { Button, Shown, Tag } from '../../ui/parts.js';
import { FieldInput, readField, textOfField } from './fields.js';
import { Twins } from './twins.js';

const LISTED = /^##[ \t]+(?:facts|relationships)[ \t]*\n[\s\S]*?(?=^#{1,2}[ \t]|$(?![\s\S]))/gim;

/** @param {{id: string, types: any[]}} props */
export function EntityScreen({ id, types }) {
  const [on, setOn] = useState('');
  const entity = useLoad((signal) => get('/api/brain/entities/by_id', { id }, signal), [id]);
  const facts = useLoad((signal) => get('/api/brain/facts', { entity: id, on }, signal), [id, on]);
  const links = useLoad((signal) => get('/api/brain/traverse', { entity: id, on }, signal), [id, on]);
  const notes = useLoad((signal) => get('/api/brain/backlinks', { entity: id }, signal), [id]);
  const reload = () => { for (const one of [entity, facts, links, notes]) one.reload(); };
  useEvents(['brain.entity.', 'file.'], reload);
  return html`<${Shown} of=${entity}>${(/** @type {any} */ found) => html`
    <article class="entity">
      <header class="row middle">
        <h2 class="grow">${found.name} <${Tag}>${found['@type'] || t.brain.noType}<//> ${found.status && html`<${Tag} kind="good">${found.status}<//>`}</h2>
        <a class="button" href=${noteAddress(found.path)}>${t.brain.openNote}</a>
      </header>
      ${(found.aliases.length > 0 || found.tags.length > 0) && html`<p class="soft">${[...found.aliases, ...found.tags.map((/** @type {string} */ one) => `#${one}`)].join(' · ')}</p>`}
      <div class="reading">
        <div class="stack">
          <${Twins} entity=${id} onMerged=${() => go(address('brain'))} />
          <${Markdown} text=${found.body.replace(LISTED, '')} base=${found.path} />
          <section>
            <header class="row middle"><h2 class="grow">${t.brain.facts}</h2><label class="inline">${t.brain.on}<input type="date" value=${on} onChange=${(/** @type {any} */ event) => setOn(event.target.value)} /></label></header>
            <${Shown} of=${facts}>${(/** @type {any[]} */ rows) => html`<${Facts} rows=${rows.filter((one) => one.section === 'facts')} />`}<//>
          </section>
          <section><h2>${t.brain.relationships}</h2><${Shown} of=${links}>${(/** @type {any} */ told) => html`<${Links} rows=${told.results} />`}<//></section>
        </div>
        <aside>
          <${Fields} key=${found['@type']} entity=${found} type=${types.find((one) => one.name === found['@type'])} onSaved=${reload} />
          <section><h2>${t.brain.mentions}</h2><${Mentions} name=${found.name} linked=${(notes.data?.results ?? []).filter((/** @type {any} */ one) => !one.type)} /></section>
        </aside>
      </div>
    </article>`}<//>`;
}

/** @param {{rows: any[]}} props */
const Facts = ({ rows }) => (rows.length === 0 ? html`<p class="soft">${t.brain.noFacts}</p>` : html`
  <ul class="fact-list">${rows.map((one) => html`<li key=${one.line}><${Markdown} text=${one.text} /><span class="soft">${t.brain.period(one.since, one.until)}</span></li>`)}</ul>`);

/** @param {{rows: any[]}} props */
const Links = ({ rows }) => (rows.length === 0 ? html`<p class="soft">${t.brain.noLinks}</p>` : html`
  <ul class="fact-list">${rows.map((one) => html`
    <li key=${one.para_id}><span>${one.direction === 'out' ? '→' : '←'} <a href=${one.type ? address('brain', ['entity', one.para_id]) : noteAddress(one.path)}>${one.name}</a> ${one.label}</span><span class="soft">${t.brain.period(one.since, one.until)}</span></li>`)}</ul>`);

/** Notes that link to it, and those that name it. @param {{name: string, linked: any[]}} props */
function Mentions({ name, linked }) {
  const isHidden = !may('vault', 'read');
  const found = useLoad((signal) => (isHidden ? Promise.resolve({ results: [] }) : get('/api/search', { q: `"${name.replaceAll('"', ' ')}"`, limit: 20 }, signal)), [name]);
  const paths = new Map([...linked, ...(found.data?.results ?? [])].filter((one) => !one.path.startsWith('Brain/')).map((one) => [one.path, one.name ?? one.title ?? one.path]));
  return paths.size === 0 ? html`<p class="soft">${t.brain.noMentions}</p>` : html`
    <ul class="plain">${[...paths].map(([path, title]) => html`<li key=${path}><a href=${noteAddress(path)}>${title || path}</a></li>`)}</ul>`;
}

/** The fields of its type, edited. @param {{entity: any, type: any, onSaved: () => void}} props */
function Fields({ entity, type, onSaved }) {
  const [draft, setDraft] = useState(/** @type {Record<string, string>} */ ({}));
  const fields = (type?.fields ?? []).filter((/** @type {any} */ one) => one.name !== 'relationships');
  const shown = fields.some((/** @type {any} */ one) => one.name === 'status') ? fields : [{ name: 'status', type: 'string' }, ...fields];
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const data = Object.fromEntries(shown.filter((/** @type {any} */ one) => one.name in draft).map((/** @type {any} */ one) => [one.name, readField(one, draft[one.name])]));
    try {
      await ask('PUT', `/api/brain/entities/${inAddress(entity['@id'])}`, { body: { data } });
      setDraft({});
      toast(t.brain.saved);
      onSaved();
    } catch (error) {
      toastProblem(error);
    }
  };
  const mayWrite = may('brain', 'write');
  return html`
    <form class="stack fields" onSubmit=${save}>
      <h2>${t.brain.fields}</h2>
      ${shown.map((/** @type {any} */ one) => html`<${FieldInput} key=${one.name} field=${one} isFixed=${!mayWrite} value=${draft[one.name] ?? textOfField(entity[one.name])} onInput=${(/** @type {string} */ value) => setDraft({ ...draft, [one.name]: value })} />`)}
      ${Object.keys(draft).length > 0 && html`<p class="row"><${Button} kind="main" type="submit">${t.journal.save}<//><${Button} onClick=${() => setDraft({})}>${t.app.cancel}<//></p>`}
    </form>`;
}
