/** Other file: one that is no note; shown where a browser safely can. */

import { html, useEffect, useState } from '../../vendor/view.js';
import { inAddress, send } from '../../lib/api.js';
import { address } from '../../lib/router.js';
import { t } from '../../lib/strings.js';
import { Loading, Problem } from '../../ui/parts.js';
import { Icon } from '../../ui/icon.js';

const MOST_TEXT = 200_000;
const PICTURE = /^image\/(png|jpeg|gif|webp)$/;
const SOUND = /^(audio|video)\//;

/** @param {{path: string}} props */
export function OtherFile({ path }) {
  const [file, setFile] = useState(/** @type {{kind: string, address: string, text: string, size: number} | null} */ (null));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  useEffect(() => {
    const cut = new AbortController();
    let made = '';
    (async () => {
      const blob = await (await send('GET', `/api/files/${inAddress(path)}`, { signal: cut.signal })).blob();
      const isShown = PICTURE.test(blob.type) || SOUND.test(blob.type);
      // As plain bytes, so that nothing that is opened by its address can run.
      made = URL.createObjectURL(isShown ? blob : new Blob([blob], { type: 'application/octet-stream' }));
      const text = isShown ? '' : await blob.slice(0, MOST_TEXT).text();
      setFile({ kind: blob.type, address: made, text: text.includes('\0') ? '' : text, size: blob.size });
    })().catch((problem) => { if (!cut.signal.aborted) setError(problem); });
    return () => {
      cut.abort();
      URL.revokeObjectURL(made);
    };
  }, [path]);
  const name = path.split('/').pop() ?? path;
  return html`
    <div class="inside">
      <header class="row middle"><a class="back button" href=${address('vault')}><${Icon} name="left" />${t.vault.title}</a><h1 class="grow">${name}</h1></header>
      ${error && html`<${Problem} error=${error} />`}
      ${!file && !error && html`<${Loading} />`}
      ${file && html`
        <p class="soft">${t.vault.size(file.size)} <a href=${file.address} download=${name}>${t.vault.download}</a></p>
        ${PICTURE.test(file.kind) && html`<img class="picture" src=${file.address} alt=${name} />`}
        ${SOUND.test(file.kind) && html`<audio controls src=${file.address}></audio>`}
        ${file.text && html`<pre class="command" tabindex="0">${file.text}</pre>`}`}
    </div>`;
}
