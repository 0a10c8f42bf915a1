/** Value input: the field that fits a setting's kind of value: a choice, a number, or text. */

import { html } from '../vendor/view.js';

/** @param {{kind: string, value: string, disabled?: boolean, onInput: (text: string) => void, [name: string]: any}} props */
export function ValueInput({ kind, value, disabled = false, onInput, ...rest }) {
  const change = (/** @type {any} */ event) => onInput(event.target.value);
  const choices = kind.split(' | ');
  if (choices.length > 1 && choices.every((one) => !['text', 'number', 'whole number', 'nothing', 'list', 'mapping'].includes(one))) {
    return html`<select value=${value} disabled=${disabled} onChange=${change} ...${rest}>${choices.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select>`;
  }
  const isNumber = kind === 'whole number' || kind === 'number';
  return html`<input value=${value} disabled=${disabled} inputmode=${isNumber ? 'decimal' : undefined} onInput=${change} ...${rest} />`;
}
