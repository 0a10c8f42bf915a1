/** Tree: folders that open in place; what is open stays so while the page is. */

import { html, signal } from '../../vendor/view.js';
import { get } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { noteAddress } from '../../lib/router.js';
import { t } from '../../lib/strings.js';
import { Icon } from '../../ui/icon.js';
import { Shown } from '../../ui/parts.js';

const open = signal(/** @type {Set<string>} */ (new Set()));
const MOST = 500;

/** @param {{chosen: string}} props */
export const Tree = ({ chosen }) => html`<nav class="tree" aria-label=${t.vault.tree}><${Folder} path="" chosen=${chosen} /></nav>`;

/** @param {{path: string, chosen: string}} props */
function Folder({ path, chosen }) {
  const listed = useLoad((signal) => get('/api/ls', { path }, signal), [path]);
  useEvents(['file.created', 'file.deleted', 'file.moved'], (told) => {
    if (told.event === 'reset' || [told.data.path, told.data.from].some((one) => isIn(path, one))) listed.reload();
  });
  return html`<${Shown} of=${listed}>${(/** @type {any} */ found) => {
    const entries = /** @type {any[]} */ (found.entries).filter((one) => !one.name.startsWith('.'));
    return html`<ul>
      ${entries.slice(0, MOST).map((one) => html`<li key=${one.name}>${one.isDirectory
        ? html`<${Branch} path=${one.path} name=${one.name} chosen=${chosen} />`
        : html`<a href=${noteAddress(one.path)} aria-current=${one.path === chosen ? 'page' : null}><${Icon} name="note" /><span>${one.name.replace(/\.md$/, '')}</span></a>`}</li>`)}
      ${entries.length > MOST && html`<li class="soft">${t.vault.more(entries.length - MOST)}</li>`}
    </ul>`;
  }}<//>`;
}

/** @param {{path: string, name: string, chosen: string}} props */
function Branch({ path, name, chosen }) {
  const isOpen = open.value.has(path) || chosen.startsWith(`${path}/`);
  const toggle = () => {
    const next = new Set(open.peek());
    if (!next.delete(path)) next.add(path);
    open.value = next;
  };
  return html`
    <button type="button" aria-expanded=${isOpen} onClick=${toggle}><${Icon} name=${isOpen ? 'down' : 'right'} /><span>${name}</span></button>
    ${isOpen && html`<${Folder} path=${path} chosen=${chosen} />`}`;
}

/** Whether a listing of the folder may show the file. @param {string} folder @param {unknown} path */
const isIn = (folder, path) => typeof path === 'string' && (folder === '' || path.startsWith(`${folder}/`));
