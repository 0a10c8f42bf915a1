/** Fields: the kinds of fields that types of entities have, as inputs. */

import { html } from '../../vendor/view.js';
import { t } from '../../lib/strings.js';

export const KINDS = ['string', 'integer', 'number', 'boolean', 'date', 'datetime', 'enum', 'array', 'link'];
const INPUTS = /** @type {Record<string, string>} */ ({ integer: 'number', number: 'number', date: 'date' });

/** A value as a person edits it. @param {any} value */
export const textOfField = (value) => (Array.isArray(value) ? value.map((one) => (typeof one === 'string' ? one : JSON.stringify(one))).join(', ') : value === null || value === undefined ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value));

/** What a person typed, as the field holds it; null takes it out. @param {{type: string}} field @param {string} text */
export function readField(field, text) {
  const said = text.trim();
  if (!said) return null;
  if (field.type === 'array') return said.split(',').map((one) => one.trim()).filter(Boolean);
  if ((field.type === 'integer' || field.type === 'number') && Number.isFinite(Number(said))) return Number(said);
  return field.type === 'boolean' ? said === 'true' : said;
}

/** @param {{field: any, value: string, isFixed?: boolean, onInput: (value: string) => void}} props */
export function FieldInput({ field, value, isFixed = false, onInput }) {
  const told = (/** @type {any} */ event) => onInput(event.target.value);
  const choices = field.type === 'boolean' ? ['true', 'false'] : field.type === 'enum' ? field.values ?? [] : null;
  const isUnlisted = choices && value && !choices.includes(value);
  return html`<label>${field.name}${field.required && ` (${t.brain.required})`}${field.type === 'array' && html` <span class="soft">${t.brain.commas}</span>`}
    ${choices ? html`<select value=${value} disabled=${isFixed} onChange=${told}><option value=""></option>${isUnlisted && html`<option value=${value}>${value}</option>`}${choices.map((/** @type {string} */ one) => html`<option key=${one} value=${one}>${one}</option>`)}</select>`
      : html`<input type=${INPUTS[field.type] ?? 'text'} step=${field.type === 'number' ? 'any' : undefined} value=${value} disabled=${isFixed} title=${field.description} onInput=${told} />`}
  </label>`;
}
