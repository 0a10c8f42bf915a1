/** Facts: names with their values, those that have none left out. */

import { html } from '../vendor/view.js';

/** @param {{of: [string, any][]}} props a list of values is one a line */
export const Facts = ({ of }) => html`<dl class="facts">${of.filter(([, value]) => hasValue(value)).map(([name, value], at) => html`
  <div key=${at}><dt>${name}</dt><dd>${Array.isArray(value) ? value.map((one) => html`<div>${one}</div>`) : value}</dd></div>`)}</dl>`;

/** @param {any} value */
const hasValue = (value) => value !== null && value !== undefined && value !== '' && !(Array.isArray(value) && !value.length);
