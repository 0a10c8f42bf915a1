/** First steps: the vault, what was found, three modules with what they may do, and a first watch. */

import { html, useState } from '../../vendor/view.js';
import { get, post } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { endFirstSteps } from '../../lib/first-steps.js';
import { useLoad } from '../../lib/load.js';
import { health } from '../../lib/modules.js';
import { address, go } from '../../lib/router.js';
import { t } from '../../lib/strings.js';
import { toastProblem } from '../../lib/toasts.js';
import { Consent } from '../../ui/consent.js';
import { Button, Command, Shown, Tag } from '../../ui/parts.js';
import { FirstWatch } from './first-watch.js';
import { OtherVault } from './other-vault.js';

const MODULES = ['daily', 'brain', 'chat'];

export default function First() {
  const listed = useLoad((signal) => get('/api/modules', {}, signal), []);
  const logins = useLoad((signal) => get('/api/auth/logins', {}, signal), []);
  useEvents(['module.'], listed.reload);
  const end = () => {
    endFirstSteps();
    go(address('journal'));
  };
  const vault = health.value?.vault;
  const isRunning = (/** @type {string} */ name) => listed.data?.modules.some((/** @type {any} */ one) => one.name === name && one.status === 'running');
  return html`
    <div class="page first">
      <header><h1>${t.first.title}</h1><${Button} onClick=${end}>${t.first.skipAll}<//></header>
      <p class="soft">${t.first.why}</p>
      <${Step} title=${t.first.vault} isDone=${Boolean(vault)}>${vault && html`<p>${t.first.vaultIs(vault.path, vault.files)}</p><${OtherVault} />`}<//>
      <${Step} title=${t.first.found} isDone=${logins.data?.looked.some((/** @type {any} */ one) => one.found)}>
        <${Shown} of=${logins}>${(/** @type {any} */ told) => html`<p>${t.health.facts.agent}: ${told.agent}</p><p>${t.health.facts.docker}: ${t.health.docker(health.value?.docker)}</p>
          ${!told.looked.some((/** @type {any} */ one) => one.found) && html`<p>${t.first.noLogin}</p><${Command}>parachute auth set ANTHROPIC_API_KEY<//>`}`}<//>
      <//>
      <${Shown} of=${listed}>${() => MODULES.map((name) => html`
        <${Step} key=${name} title=${t.first.install(name)} isDone=${isRunning(name)}>
          <p>${t.first.modules[name]}</p>${!isRunning(name) && html`<${Install} name=${name} onDone=${listed.reload} />`}<//>`)}<//>
      <${FirstWatch} Step=${Step} />
      <p class="row"><${Button} kind="main" onClick=${end}>${t.first.go}<//></p>
    </div>`;
}

/** @param {{title: string, isDone?: boolean, children?: any}} props */
function Step({ title, isDone = false, children }) {
  const [isSkipped, setSkipped] = useState(false);
  return html`
    <section class="card" aria-label=${title}>
      <header class="row middle"><h2 class="grow">${title}</h2>${isDone ? html`<${Tag} kind="good">${t.first.done}<//>` : !isSkipped && html`<${Button} aria-label=${`${t.first.skip}: ${title}`} onClick=${() => setSkipped(true)}>${t.first.skip}<//>`}</header>
      ${!isSkipped && children}
    </section>`;
}

/** @param {{name: string, onDone: () => void}} props */
function Install({ name, onDone }) {
  const [isShown, setShown] = useState(false);
  const show = async () => {
    try {
      await post('/api/modules/install', { source: `parachute://${name}`, trust: 'trusted' });
      setShown(true);
    } catch (error) {
      toastProblem(error);
    }
  };
  return isShown ? html`<${Consent} name=${name} trust="trusted" onDone=${onDone} />` : html`<p class="row"><${Button} kind="main" onClick=${show}>${t.first.show}<//></p>`;
}
