/** Sign in: asks for a key, where one is needed. */

import { html, useEffect, useRef, useState } from '../vendor/view.js';
import { answerOffer, caller, look, offeredKey, problem, signIn } from '../lib/session.js';
import { t } from '../lib/strings.js';
import { countUnsent, forgetUnsent } from '../lib/unsent.js';
import { Button, Command } from './parts.js';

const AGAIN_MS = 3_000;

export function SignIn() {
  const [key, setKey] = useState('');
  const [isAsking, setAsking] = useState(false);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setAsking(true);
    await signIn(key);
    setAsking(false);
  };
  return html`
    <main class="alone">
      <h1>${t.signIn.title}</h1>
      <p>${t.signIn.why}</p>
      ${problem.value && html`<p class="problem" role="alert">${problem.value}</p>`}
      <form class="row" onSubmit=${submit}>
        <label class="grow">${t.signIn.key}
          <input type="password" autocomplete="current-password" required value=${key}
            onInput=${(/** @type {any} */ event) => setKey(event.target.value)} />
        </label>
        <${Button} kind="main" type="submit" disabled=${isAsking}>${t.signIn.act}<//>
      </form>
      <p>${t.signIn.here}</p>
      <${Command}>parachute open<//>
      <p>${t.signIn.phone}</p>
      <${Command}>parachute keys create phone<//>
      <${Left} />
    </main>`;
}

/** Asks before the key of a link takes the place of who this browser is. */
export function OtherKey() {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const [isAsking, setAsking] = useState(false);
  useEffect(() => place.current?.querySelector('button')?.focus(), []);
  const use = () => { setAsking(true); answerOffer(true); };
  return html`
    <main class="alone" ref=${place}>
      <h1>${t.signIn.otherTitle}</h1>
      <p>${t.signIn.other(caller.value?.name ?? '', offeredKey.value)}</p>
      <p>${t.signIn.otherWhy}</p>
      <p class="row">
        <${Button} kind="main" onClick=${() => answerOffer(false)}>${t.signIn.otherKeep}<//>
        <${Button} kind="danger" disabled=${isAsking} onClick=${use}>${t.signIn.otherUse}<//>
      </p>
    </main>`;
}

/** What was not sent stays when the key is gone, since it is nowhere else; it is not shown here. */
function Left() {
  const [count, setCount] = useState(countUnsent);
  return count === 0 ? null : html`
    <p>${t.unsent.left(count)}</p>
    <${Button} kind="danger" onClick=${() => { forgetUnsent(); setCount(countUnsent()); }}>${t.unsent.forget}<//>`;
}

export function Unreachable() {
  useEffect(() => {
    const timer = setInterval(look, AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  return html`
    <main class="alone">
      <h1>${t.signIn.unreachable}</h1>
      <p>${t.signIn.unreachableWhy}</p>
      <${Command}>parachute start<//>
      <${Button} kind="main" onClick=${look}>${t.app.retry}<//>
    </main>`;
}
