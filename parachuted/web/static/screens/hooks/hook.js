/** Hook: one of them, its script as it is now, a trial of it. */

import { html, useState } from '../../vendor/view.js';
import { get, post } from '../../lib/api.js';
import { useLoad } from '../../lib/load.js';
import { address } from '../../lib/router.js';
import { t } from '../../lib/strings.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Facts } from '../../ui/facts.js';
import { Icon } from '../../ui/icon.js';
import { Button, Shown, Tag } from '../../ui/parts.js';
import { Words } from '../../ui/words.js';
import { Texts } from './hook-run.js';

/** @param {{of: any, onChange: () => void}} props */
export function Hook({ of, onChange }) {
  const [trial, setTrial] = useState(/** @type {any} */ (null));
  const script = useLoad((signal) => get('/api/hooks/scripts', { hook: of.name }, signal), [of.name]);
  const approve = async (/** @type {any[]} */ files) => {
    try {
      await post('/api/hooks/approve', { names: [of.name], hashes: Object.fromEntries(files.filter((one) => one.hash).map((one) => [one.path, one.hash])) });
      toast(t.hooks.approved);
    } catch (error) {
      toastProblem(error);
    }
    script.reload();
    onChange();
  };
  const test = async () => {
    try {
      setTrial(await post('/api/hooks/test', { event: of.events[0], hook: of.name }));
    } catch (error) {
      toastProblem(error);
    }
    onChange();
  };
  return html`<article class="inside">
    <header class="row middle"><a class="back button" href=${address('hooks')}><${Icon} name="left" />${t.hooks.title}</a>
      <h1 class="grow small">${of.name}</h1><${Button} onClick=${test}>${t.hooks.test}<//></header>
    ${of.description && html`<p>${of.description}</p>`}
    ${of.problem && html`<p class="problem" role="alert"><span><${Words} text=${of.problem} /></span></p>`}
    <${Facts} of=${[
      [t.hooks.facts.events, of.events.join(', ')], [t.hooks.facts.matcher, of.matcher], [t.hooks.facts.command, of.command],
      [t.hooks.facts.timeout, t.hooks.seconds(of.timeout_s)], [t.hooks.facts.runs, t.hooks.times(of)], [t.hooks.facts.slowest, of.slowest_ms && t.hooks.ms(of.slowest_ms)],
    ]} />
    ${trial && html`<section class="card" role="status"><p><strong>${t.hooks.tried(trial)}</strong></p>${trial.runs.map((/** @type {any} */ one) => html`<${Texts} key=${one.id} of=${one} />`)}</section>`}
    <${Shown} of=${script}>${(/** @type {any} */ found) => found.files.length > 0 && html`
      <h2>${t.hooks.script}</h2>
      ${found.files.map((/** @type {any} */ one) => html`<section key=${one.path}>
        <p class="row middle"><code class="grow">${one.path}</code><${Tag} kind=${one.state === 'approved' ? 'good' : 'wait'}>${t.hooks.states[one.state]}<//></p>
        ${one.text && html`<pre>${one.text}</pre>`}</section>`)}
      ${found.files.some((/** @type {any} */ one) => one.state === 'changed') && html`<p class="row"><${Button} kind="main" icon="check" onClick=${() => approve(found.files)}>${t.hooks.approve}<//></p>`}`}<//>
  </article>`;
}
