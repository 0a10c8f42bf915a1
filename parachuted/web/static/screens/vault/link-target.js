/** Link target: a link was followed; shows the note that it leads to, or offers to make one. */

import { html, useEffect } from '../../vendor/view.js';
import { ask, get, inAddress } from '../../lib/api.js';
import { useLoad } from '../../lib/load.js';
import { go, noteAddress, replace } from '../../lib/router.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { toastProblem } from '../../lib/toasts.js';
import { Button, Loading, Shown } from '../../ui/parts.js';

/** @param {{target: string, source: string, heading: string}} props */
export function LinkTarget({ target, source, heading }) {
  const found = useLoad((signal) => get('/api/links/target', { target, source }, signal), [target, source]);
  const path = found.data?.path;
  useEffect(() => { if (path) replace(noteAddress(path, { heading })); }, [path]);
  return html`<div class="inside"><${Shown} of=${found}>${() => (path ? html`<${Loading} />` : html`<${Missing} target=${target} />`)}<//></div>`;
}

/** @param {{target: string}} props */
function Missing({ target }) {
  const path = target.replace(/^(\.{0,2}\/)+/, '').replace(/(\.md)?$/, '.md');
  const create = async () => {
    try {
      await ask('PUT', `/api/notes/${inAddress(path)}`, { body: `# ${path.split('/').pop()?.replace(/\.md$/, '')}\n\n`, headers: { 'Content-Type': 'text/markdown', 'If-None-Match': '*' } });
      go(noteAddress(path, { view: 'edit' }));
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`
    <h1>${target}</h1>
    <p>${t.vault.missing}</p>
    ${may('vault', 'write') && html`<p><${Button} kind="main" onClick=${create}>${t.vault.makeNamed(path)}<//></p>`}`;
}
