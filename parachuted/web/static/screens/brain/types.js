/** Types: which kinds of entities there are, and the fields of each, edited. */

import { html, useState } from '../../vendor/view.js';
import { ask, post } from '../../lib/api.js';
import { address, go } from '../../lib/router.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Button, IconButton, Tag } from '../../ui/parts.js';
import { KINDS } from './fields.js';

/** @param {{types: any[], chosen: string, onChange: () => void}} props */
export function TypesScreen({ types, chosen, onChange }) {
  const mayWrite = may('brain', 'write');
  const type = chosen === '+' ? { name: '', fields: [], description: '', entity_count: 0 } : types.find((one) => one.name === chosen);
  return html`
    <div class="types">
      <div>
        <ul class="rows">${types.map((one) => html`<li key=${one.name}><a href=${address('brain', ['types', one.name])} aria-current=${one.name === chosen}>
          <span class="what"><span>${one.icon} ${one.name}</span><${Tag}>${one.entity_count.toLocaleString()}<//></span>
          <span class="soft">${one.fields.map((/** @type {any} */ field) => field.name).join(', ')}</span></a></li>`)}</ul>
        ${mayWrite && html`<a class="button more" href=${address('brain', ['types', '+'])}>${t.brain.newType}</a>`}
      </div>
      ${type ? html`<${Editor} key=${chosen} type=${type} isNew=${chosen === '+'} isFixed=${!mayWrite} onChange=${onChange} />` : html`<p class="soft">${t.brain.typesWhy}</p>`}
    </div>`;
}

/** @param {{type: any, isNew: boolean, isFixed: boolean, onChange: () => void}} props */
function Editor({ type, isNew, isFixed, onChange }) {
  const [name, setName] = useState(type.name);
  const [description, setDescription] = useState(type.description ?? '');
  const [fields, setFields] = useState(/** @type {any[]} */ (type.fields.map((/** @type {any} */ one) => ({ ...one }))));
  const change = (/** @type {number} */ index, /** @type {any} */ next) => setFields(fields.map((one, at) => (at === index ? { ...one, ...next } : one)));
  const act = async (/** @type {() => Promise<any>} */ does, /** @type {string} */ said, /** @type {string} */ to) => {
    try {
      await does();
      toast(said);
      onChange();
      go(to);
    } catch (error) {
      toastProblem(error);
    }
  };
  const save = (/** @type {Event} */ event) => {
    event.preventDefault();
    const body = { fields: Object.fromEntries(fields.filter((one) => one.name.trim()).map((one) => [one.name.trim(), told(one)])), description: description || null };
    const place = encodeURIComponent(name.trim());
    act(() => (isNew ? post('/api/brain/types', { name: name.trim(), ...body }) : ask('PUT', `/api/brain/types/${place}`, { body })), t.brain.typeSaved, address('brain', ['types', name.trim()]));
  };
  const remove = () => act(() => ask('DELETE', `/api/brain/types/${encodeURIComponent(type.name)}`), t.brain.typeRemoved, address('brain', ['types']));
  return html`
    <form class="card stack" onSubmit=${save}>
      ${isNew ? html`<label>${t.brain.typeName}<input required pattern="[a-z][a-z0-9_\\-]*" value=${name} onInput=${(/** @type {any} */ event) => setName(event.target.value)} /></label>` : html`<h2>${type.icon} ${type.name}</h2>`}
      <label>${t.brain.description}<input value=${description} disabled=${isFixed} onInput=${(/** @type {any} */ event) => setDescription(event.target.value)} /></label>
      ${fields.map((one, index) => html`
        <fieldset class="row" key=${index} disabled=${isFixed}>
          <legend class="hidden">${t.brain.field(index + 1)}</legend>
          <label class="grow">${t.brain.fieldName}<input value=${one.name} onInput=${(/** @type {any} */ event) => change(index, { name: event.target.value })} /></label>
          <label>${t.brain.kind}<select value=${one.type} onChange=${(/** @type {any} */ event) => change(index, { type: event.target.value })}>${[...new Set([...KINDS, one.type])].map((kind) => html`<option key=${kind} value=${kind}>${kind}</option>`)}</select></label>
          ${one.type === 'enum' && html`<label class="grow">${t.brain.values}<input value=${(one.values ?? []).join(', ')} onChange=${(/** @type {any} */ event) => change(index, { values: event.target.value.split(',').map((/** @type {string} */ value) => value.trim()).filter(Boolean) })} /></label>`}
          <label class="check"><input type="checkbox" checked=${one.required} onChange=${(/** @type {any} */ event) => change(index, { required: event.target.checked })} />${t.brain.required}</label>
          ${!isFixed && html`<${IconButton} icon="trash" label=${t.brain.removeField(one.name)} onClick=${() => setFields(fields.filter((_, at) => at !== index))} />`}
        </fieldset>`)}
      ${!isFixed && html`<p class="row">
        <${Button} icon="plus" onClick=${() => setFields([...fields, { name: '', type: 'string', required: false }])}>${t.brain.addField}<//>
        <${Button} kind="main" type="submit">${t.journal.save}<//>
        ${!isNew && type.entity_count === 0 && html`<${Button} kind="danger" onClick=${remove}>${t.brain.removeType}<//>`}</p>`}
    </form>`;
}

/** A field as the API takes it. @param {any} field */
function told({ name: _name, ...field }) {
  return field.type === 'enum' ? field : { ...field, values: undefined };
}
