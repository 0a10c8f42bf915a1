/** Rights: what the agent of a conversation may do, where, and with which tools. */

import { html, useState } from '../../vendor/view.js';
import { get } from '../../lib/api.js';
import { useLoad } from '../../lib/load.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { Button } from '../../ui/parts.js';

export const MODES = ['default', 'sandboxed', 'workspace', 'trusted'];
const CAPABILITIES = ['Read', 'Write', 'Edit', 'Bash', 'WebFetch'];

/** @param {{session: any, isFixed: boolean, change: (body: any) => void}} props */
export function Rights({ session, isFixed, change }) {
  const said = session.metadata?.permissions;
  const mayRead = may('system', 'read');
  const servers = useLoad((signal) => (mayRead ? get('/api/mcps', {}, signal).catch(() => ({ servers: [] })) : Promise.resolve({ servers: [] })), [mayRead]);
  const names = (servers.data?.servers ?? []).map((/** @type {any} */ one) => one.name).join(', ');
  const set = (/** @type {any} */ more) => change({ permissions: { capabilities: ['Read'], ...said, ...more } });
  const toggle = (/** @type {string} */ name) => {
    const before = said?.capabilities ?? ['Read'];
    set({ capabilities: before.includes(name) ? before.filter((/** @type {string} */ one) => one !== name) : [...before, name] });
  };
  return html`
    <fieldset disabled=${isFixed}><legend>${t.chat.mayDo}</legend>
      <div class="row">${CAPABILITIES.map((one) => html`<label key=${one} class="check"><input type="checkbox" checked=${Boolean(said?.capabilities.includes(one))} onChange=${() => toggle(one)} />${t.chat.capabilities[one]}</label>`)}</div>
      <div class="row"><${Only} key=${JSON.stringify(said?.allowed_folders)} name=${t.chat.onlyFolders} label=${t.chat.foldersList} value=${said?.allowed_folders ?? null} usual=${session.contextFolders} set=${(/** @type {any} */ list) => set({ allowed_folders: list })} />
        <${Only} key=${JSON.stringify(said?.allowed_mcps)} name=${t.chat.onlyTools} label=${t.chat.toolsList} value=${said?.allowed_mcps ?? null} usual=${[]} set=${(/** @type {any} */ list) => set({ allowed_mcps: list })} hint=${names && t.chat.serversKnown(names)} /></div>
      <p class="soft">${said ? t.chat.ownRights : t.chat.usualRights}</p>
    </fieldset>`;
}

/** All, or only those of a list. @param {{name: string, label: string, value: string[] | null, usual: string[], set: (list: string[] | null) => void, hint?: string}} props */
function Only({ name, label, value, usual, set, hint = '' }) {
  const [text, setText] = useState((value ?? []).join('\n'));
  const lines = text.split('\n').map((one) => one.trim()).filter(Boolean);
  return html`
    <div class="only grow"><label class="check"><input type="checkbox" checked=${value !== null} onChange=${() => set(value === null ? usual : null)} />${name}</label>
      ${value !== null && html`<label>${label}<textarea rows="3" placeholder=${t.chat.noneOfThem} value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea></label>
        <p class="row middle"><${Button} disabled=${lines.join('\n') === value.join('\n')} onClick=${() => set(lines)}>${t.chat.saveList}<//><span class="soft">${hint}</span></p>`}</div>`;
}
