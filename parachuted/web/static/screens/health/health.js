/** Health: what the doctor found, what to do about each, and how the daemon is. */

import { html } from '../../vendor/view.js';
import { get, post } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address, noteAddress } from '../../lib/router.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { momentName } from '../../lib/times.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Confirm } from '../../ui/confirm.js';
import { Facts } from '../../ui/facts.js';
import { Button, Command, Shown, Tag } from '../../ui/parts.js';
import { Qr } from '../../ui/qr.js';
import { Words } from '../../ui/words.js';

/** Where a finding is dealt with, by the first word of what it is about. */
const SCREENS = /** @type {Record<string, [string, string]>} */ ({
  keys: ['keys', t.keys.title], hook: ['hooks', t.hooks.title], hooks: ['hooks', t.hooks.title],
  module: ['modules', t.modules.title], modules: ['modules', t.modules.title], supervisor: ['settings', t.settings.title],
});

export default function Health() {
  const doctor = useLoad((signal) => get('/api/doctor', {}, signal), []);
  const health = useLoad((signal) => get('/api/health', { detailed: true }, signal), []);
  const again = () => { doctor.reload(); health.reload(); };
  useEvents(['vault.problem', 'module.'], again);
  return html`
    <div class="page health">
      <header><h1>${t.health.title}</h1><${Button} onClick=${again}>${t.health.again}<//></header>
      <div class="beside">
        <div>
          <${Shown} of=${doctor}>${(/** @type {any} */ found) => (found.findings.length === 0 ? html`<p class="well"><${Tag} kind="good">ok<//> ${t.health.well}</p>` : html`
            <h2>${t.health.found(found.findings.length)}</h2>
            <ul class="cards">${found.findings.map((/** @type {any} */ one) => html`<li class="card" key=${one.about + one.path}><${Finding} of=${one} onDone=${again} /></li>`)}</ul>`)}<//>
        </div>
        <aside>
          <${Device} />
          <${Shown} of=${health}>${(/** @type {any} */ found) => html`<section><h2>${t.health.daemon}</h2><${Facts} of=${factsOf(found, doctor.data)} /></section>`}<//>
          ${may('system', 'admin') && html`<${Logins} />`}
        </aside>
      </div>
    </div>`;
}

/** @param {any} one @param {any} doctor @returns {[string, any][]} */
const factsOf = (one, doctor) => [
  [t.health.facts.version, one.version], [t.health.facts.up, t.health.span(one.uptime)],
  [t.health.facts.vault, one.vault?.path], [t.health.facts.files, one.vault?.files?.toLocaleString()],
  [t.health.facts.watched, one.vault?.watched_by], [t.health.facts.agent, one.agent?.reason],
  [t.health.facts.budget, one.budget?.runs_last_day === undefined ? '' : `${one.budget.runs_last_day} / ${one.budget.runs_per_day}`],
  [t.health.facts.docker, t.health.docker(one.docker)],
  [t.health.facts.search, doctor?.search && t.health.indexed(doctor.search)],
  [t.health.facts.history, doctor?.history && t.health.history(doctor.history)],
  [t.health.facts.sqlite, doctor?.databases && `SQLite ${doctor.databases.sqlite}`],
];

/** @param {{of: any, onDone: () => void}} props */
function Finding({ of, onDone }) {
  const mend = async () => {
    try {
      await (of.remedy === 'restart' ? post('/supervisor/server/restart') : post('/api/scan', of.remedy === 'accept_missing' ? { accept_missing: true } : {}));
      toast(t.health.done[of.remedy]);
      onDone();
    } catch (error) {
      toastProblem(error);
    }
  };
  const screen = SCREENS[of.about.split(/[:. ]/)[0]];
  const mayMend = of.remedy === 'restart' ? may('system', 'admin') : may('curator', 'admin');
  return html`
    <p><${Tag} kind=${of.is_problem ? 'bad' : 'wait'}>${of.is_problem ? t.health.problem : t.health.note}<//> <strong>${of.path ?? of.about}${of.line ? `:${of.line}` : ''}</strong></p>
    <p><${Words} text=${of.problem} /></p>
    ${of.advice && html`<p class="soft"><${Words} text=${of.advice} /></p>`}
    <p class="row">
      ${of.remedy && mayMend && (of.remedy === 'accept_missing'
        ? html`<${Confirm} label=${t.health.remedies[of.remedy]} why=${of.problem} name=${t.health.sure} act=${mend} />`
        : html`<${Button} onClick=${mend}>${t.health.remedies[of.remedy]}<//>`)}
      ${of.path && html`<a class="button" href=${noteAddress(of.path)}>${t.health.open}</a>`}
      ${screen && html`<a class="button" href=${address(screen[0])}>${t.health.see(screen[1])}</a>`}
    </p>`;
}

const Device = () => html`
  <section><h2>${t.health.phone}</h2>
    <p class="soft">${isSecureContext ? t.health.secure : t.health.insecure}</p>
    ${!isSecureContext && html`<${Command}>parachute tls<//>`}
    ${may('system', 'admin') && html`<${Encrypted} />`}
  </section>`;

/** How other devices reach the daemon encrypted, and get the authority that they are to trust. */
function Encrypted() {
  const found = useLoad((signal) => get('/api/tls', {}, signal), []);
  return html`<${Shown} of=${found}>${(/** @type {any} */ told) => (told.address ? html`
    <details><summary>${t.health.tls}</summary>
      <p class="soft">${t.health.tlsWhy}</p><${Qr} rows=${told.qr} label=${t.health.qr} />
      <${Facts} of=${[[t.health.address, told.address], [t.health.authority, told.authority], [t.health.fingerprint, told.fingerprint], [t.health.ends, momentName(told.ends_at)]]} /></details>` : isSecureContext && html`
    <p class="soft">${t.health.noTls}</p><${Command}>parachute tls<//>`)}<//>`;
}

function Logins() {
  const found = useLoad((signal) => get('/api/auth/logins', {}, signal), []);
  return html`
    <section><h2>${t.health.logins}</h2><p class="soft">${t.health.loginsWhy}</p>
      <${Shown} of=${found}>${(/** @type {any} */ told) => html`<ul class="simple">${told.looked.map((/** @type {any} */ one) => html`
        <li key=${one.place}><${Tag} kind=${one.found ? 'good' : 'plain'}>${one.found ? t.health.is : t.health.isNot}<//> ${one.place}: <span class="soft">${one.why}</span></li>`)}</ul>`}<//>
    </section>`;
}
