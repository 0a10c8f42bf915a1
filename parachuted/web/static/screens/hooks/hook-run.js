/** Hook run: one run of a hook, with what went in and what came out, and a way to run it again. */

import { html } from '../../vendor/view.js';
import { get, post } from '../../lib/api.js';
import { useLoad } from '../../lib/load.js';
import { address, go } from '../../lib/router.js';
import { t } from '../../lib/strings.js';
import { momentName } from '../../lib/times.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Facts } from '../../ui/facts.js';
import { Icon } from '../../ui/icon.js';
import { Button, Shown } from '../../ui/parts.js';

/** @param {{id: string, onChange: () => void}} props */
export function HookRun({ id, onChange }) {
  const place = `/api/hooks/runs/${encodeURIComponent(id)}`;
  const run = useLoad((signal) => get(place, {}, signal), [id]);
  const replay = async () => {
    try {
      const told = await post(`${place}/replay`);
      toast(t.hooks.replayed);
      onChange();
      go(address('hooks', ['run', told.id]));
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`<article class="inside"><${Shown} of=${run}>${(/** @type {any} */ of) => html`
    <header class="row middle"><a class="back button" href=${address('hooks')}><${Icon} name="left" />${t.hooks.title}</a>
      <h1 class="grow small">${of.hook}</h1><${Button} icon="undo" onClick=${replay}>${t.hooks.replay}<//></header>
    ${of.problem && html`<p class="problem" role="alert">${of.problem}</p>`}
    <${Facts} of=${[[t.hooks.facts.events, of.event], [t.hooks.when, momentName(of.at)], [t.hooks.decision, `${of.decision} (${t.hooks.exit(of)})`], [t.hooks.took, t.hooks.ms(of.took_ms)]]} />
    <${Texts} of=${of} />`}<//></article>`;
}

/** What went in and what came out. @param {{of: any}} props */
export const Texts = ({ of }) => /** @type {const} */ (['stdin', 'stdout', 'stderr']).map((name) => html`
  <section key=${name}><h3>${t.hooks.texts[name]}</h3>${of[name] ? html`<pre class="command" tabindex="0">${spread(of[name])}</pre>` : html`<p class="soft">${t.hooks.none}</p>`}</section>`);

/** JSON over lines, so that a person can read it; other text as it is. @param {string} text */
function spread(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
