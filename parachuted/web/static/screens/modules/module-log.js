/** Module log: what a module logged, the latest last. */

import { html } from '../../vendor/view.js';
import { get } from '../../lib/api.js';
import { useLoad } from '../../lib/load.js';
import { t } from '../../lib/strings.js';
import { Button, Empty, Shown, Tag } from '../../ui/parts.js';

const KINDS = /** @type {Record<string, 'bad' | 'wait'>} */ ({ error: 'bad', critical: 'bad', warning: 'wait' });

/** @param {{name: string}} props */
export function ModuleLog({ name }) {
  const log = useLoad((signal) => get(`/api/modules/${name}/logs`, { limit: 200 }, signal), [name]);
  return html`
    <p class="row"><${Button} onClick=${log.reload}>${t.health.again}<//></p>
    <${Shown} of=${log}>${(/** @type {any} */ found) => (found.lines.length === 0 ? html`<${Empty}>${t.modules.noLog}<//>` : html`
      <ol class="log">${found.lines.map((/** @type {any} */ one, /** @type {number} */ at) => html`<li key=${at}>
        <span class="soft">${one.at.slice(0, 19)}</span> <${Tag} kind=${KINDS[one.level] ?? 'plain'}>${one.level}<//> ${one.message}
        ${Object.keys(one.fields).length > 0 && html` <span class="soft">${Object.entries(one.fields).map(([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`).join(' ')}</span>`}
        ${one.traceback && html`<pre class="command" tabindex="0">${one.traceback}</pre>`}</li>`)}</ol>`)}<//>`;
}
