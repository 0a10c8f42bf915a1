/** Module: one of them: what it does, what it may do, its settings and its log. */

import { html, useState } from '../../vendor/view.js';
import { ask, post } from '../../lib/api.js';
import { address, go } from '../../lib/router.js';
import { t } from '../../lib/strings.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Confirm } from '../../ui/confirm.js';
import { Consent } from '../../ui/consent.js';
import { Facts } from '../../ui/facts.js';
import { Icon } from '../../ui/icon.js';
import { Button, Tag } from '../../ui/parts.js';
import { ModuleLog } from './module-log.js';
import { ModuleSettings } from './module-settings.js';

const KINDS = /** @type {Record<string, 'good' | 'bad' | 'wait'>} */ ({ running: 'good', failed: 'bad', unapproved: 'wait', starting: 'wait' });
const TABS = /** @type {const} */ (['about', 'consent', 'settings', 'log']);

/** @param {{of: any}} props */
export const StateTag = ({ of }) => html`<${Tag} kind=${KINDS[of.status] ?? 'plain'}>${t.modules.states[of.status] ?? of.status}<//>`;

/** @param {{of: any, tab: string, trust: string, onChange: () => void}} props */
export function Module({ of, tab, trust, onChange }) {
  const isOpen = of.state === 'changed' || of.status === 'unapproved';
  const at = TABS.find((one) => one === tab) ?? (isOpen ? 'consent' : 'about');
  return html`<article class="inside">
    <${Head} of=${of} onChange=${onChange} />
    ${of.problem && html`<pre class="problem" role="alert" tabindex="0">${of.problem}</pre>`}
    ${of.state === 'changed' && html`<p class="notice-in">${t.modules.changedWhy}</p>`}
    <nav class="tabs" aria-label=${t.modules.views}>${TABS.map((one) => html`<a key=${one} href=${address('modules', [of.name, one])} aria-current=${one === at ? 'page' : null}>${t.modules.tabs[one]}</a>`)}</nav>
    ${at === 'about' && html`<${About} of=${of} />`}
    ${at === 'consent' && html`<${Consent} name=${of.name} trust=${trust === 'trusted' ? trust : undefined} onDone=${() => { onChange(); go(address('modules', [of.name])); }} />`}
    ${at === 'settings' && html`<${ModuleSettings} name=${of.name} />`}
    ${at === 'log' && html`<${ModuleLog} name=${of.name} />`}
  </article>`;
}

/** @param {{of: any, onChange: () => void}} props */
function Head({ of, onChange }) {
  const [withData, setWithData] = useState(false);
  const act = async (/** @type {string} */ how) => {
    try {
      await post(`/api/modules/${of.name}/${how}`);
    } catch (error) {
      toastProblem(error);
    }
    onChange();
  };
  const remove = async () => {
    try {
      await ask('DELETE', `/api/modules/${of.name}`, { query: { data: withData } });
      toast(t.modules.removed(of.name));
      go(address('modules'));
    } catch (error) {
      toastProblem(error);
    }
    onChange();
  };
  const isOff = of.status === 'disabled';
  return html`
    <header class="row middle">
      <a class="back button" href=${address('modules')}><${Icon} name="left" />${t.modules.title}</a>
      <h1 class="grow small">${of.name} <${StateTag} of=${of} /></h1>
      ${of.hash && html`<${Button} onClick=${() => act(isOff ? 'enable' : 'disable')}>${isOff ? t.modules.enable : t.modules.disable}<//>`}
      ${of.hash && !isOff && html`<${Button} onClick=${() => act('restart')}>${t.modules.restart}<//>`}
      <${Confirm} label=${t.modules.remove} icon="trash" act=${remove} name=${t.modules.removeNow}
        why=${html`${t.modules.removeWhy} <label class="check"><input type="checkbox" checked=${withData} onChange=${(/** @type {any} */ event) => setWithData(event.target.checked)} /> ${t.modules.removeData}</label>`} />
    </header>`;
}

/** @param {{of: any}} props */
const About = ({ of }) => html`
  ${of.description && html`<p>${of.description}</p>`}
  <${Facts} of=${[
    [t.modules.facts.version, of.version], [t.modules.facts.trust, `${of.trust_level}${of.dev ? ', dev' : ''}`], [t.modules.facts.notes, of.notes],
    [t.modules.facts.where, of.where === 'container' ? t.modules.container : of.where && t.modules.inside],
    [t.modules.facts.limits, of.limits], [t.modules.facts.source, of.source],
    [t.modules.facts.interfaces, of.provides],
    [t.modules.facts.agents, of.agents], [t.modules.facts.schedules, of.schedules], [t.modules.facts.events, of.events],
    [t.modules.facts.tools, of.tools], [t.modules.facts.routes, of.routes],
  ]} />`;

/** One that could be installed. @param {{of: any, onDone: () => void}} props */
export function Offered({ of, onDone }) {
  const install = async () => {
    try {
      await post('/api/modules/install', { source: of.source, trust: 'trusted' });
      onDone();
      go(address('modules', [of.name, 'consent', 'trusted']));
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`<article class="inside">
    <header class="row middle"><a class="back button" href=${address('modules')}><${Icon} name="left" />${t.modules.title}</a><h1 class="grow small">${of.name}</h1></header>
    <p>${of.description}</p><p class="soft">${t.modules.fromWhy}</p>
    <p class="row"><${Button} kind="main" onClick=${install}>${t.modules.get}<//></p>
  </article>`;
}
