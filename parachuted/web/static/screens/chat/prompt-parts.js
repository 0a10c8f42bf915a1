/** Prompt parts: what goes into a prompt, each part with its share, its age, and whether strangers may have written it. */

import { html } from '../../vendor/view.js';
import { noteAddress } from '../../lib/router.js';
import { t } from '../../lib/strings.js';
import { ago } from '../../lib/times.js';
import { Tag } from '../../ui/parts.js';

/** @param {{told: any}} props `told`: the `prompt_metadata` of a turn, or what a message would be asked with */
export const PromptParts = ({ told }) => html`
  <table class="plain"><caption class="hidden">${t.chat.prompt}</caption>
    <thead><tr>${t.chat.partColumns.map((one) => html`<th key=${one} scope="col">${one}</th>`)}</tr></thead>
    <tbody>${(told.parts ?? []).map((/** @type {any} */ one, /** @type {number} */ index) => html`
      <tr key=${index}><td>${t.chat.parts[one.kind] ?? one.kind} ${one.path && html`<a href=${noteAddress(one.path)}>${one.title || one.path}</a>`} ${one.strangers && html`<${Tag} kind="wait">${t.chat.strangers}<//>`} ${one.truncated && html`<${Tag}>${t.chat.cut}<//>`}</td>
        <td>${one.tokens.toLocaleString()}</td><td>${Math.round(one.share * 100)} %</td><td>${ago(one.modified)}</td></tr>`)}</tbody>
    <tfoot><tr><th scope="row">${t.chat.sum}</th><td>${(told.totalPromptTokens ?? 0).toLocaleString()}</td><td></td><td></td></tr></tfoot>
  </table>`;
