/** App: what is shown as a whole: sign-in, or the navigation with one screen. */

import { html, useEffect, useLayoutEffect, useState } from '../vendor/view.js';
import { connection } from '../lib/events.js';
import { running } from '../lib/modules.js';
import { areFirstStepsDue } from '../lib/first-steps.js';
import { address, replace, route } from '../lib/router.js';
import { isOpen, may, offeredKey, state } from '../lib/session.js';
import { t } from '../lib/strings.js';
import { SCREENS } from '../screens/index.js';
import { Navigation } from './navigation.js';
import { Palette } from './palette.js';
import { Button, Command, Loading } from './parts.js';
import { OtherKey, SignIn, Unreachable } from './sign-in.js';
import { Toasts } from './toasts.js';

/** The components of the screens that are loaded. @type {Map<string, (props: import('../screens/index.js').ScreenProps) => any>} */
const components = new Map();

/** @param {import('../screens/index.js').Screen} screen */
const loadScreen = async (screen) => components.set(screen.id, (await screen.load()).default);

/** @param {string} id empty: the first */
const screenOf = (id) => (id ? SCREENS.find((one) => one.id === id) : SCREENS[0]);

/** Loads the screen that the address names, beside the question who this is. */
export function loadFirstScreen() {
  const screen = screenOf(route.peek().screen);
  if (screen) loadScreen(screen).catch(() => {}); // it is loaded again when it is shown, which says what failed
}

export function App() {
  if (state.value === 'opening') return null;
  if (state.value === 'closed') return html`<${SignIn} />`;
  if (isOpen.value && offeredKey.value) return html`<${OtherKey} />`;
  return state.value === 'unreachable' ? html`<${Unreachable} />` : html`<${Open} />`;
}

function Open() {
  const { screen, rest, query } = route.value;
  const isNew = !screen && areFirstStepsDue.value;
  useEffect(() => { if (isNew) replace(address('first')); }, [isNew]);
  const shown = screenOf(screen);
  return html`
    <a class="skip" href="#content" onClick=${skip}>${t.app.skip}</a>
    <${Navigation} at=${shown?.id ?? ''} />
    <main id="content" tabindex="-1">
      ${connection.value === 'lost' && html`<p class="notice" role="status">${t.app.lost}</p>`}
      ${shown ? html`<${Screen} key=${shown.id} screen=${shown} rest=${rest} query=${query} />` : html`<p class="empty">${t.app.noScreen} <a href=${address(SCREENS[0].id)}>${SCREENS[0].name}</a></p>`}
    </main>
    <${Palette} />
    <${Toasts} />`;
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById('content')?.focus();
}

/** @param {{screen: import('../screens/index.js').Screen, rest: string[], query: URLSearchParams}} props */
function Screen({ screen, rest, query }) {
  const [, redraw] = useState(0);
  const [hasFailed, setFailed] = useState(false);
  useLayoutEffect(() => {
    document.title = `${screen.name} - ${t.app.name}`;
    if (!components.has(screen.id)) loadScreen(screen).then(() => redraw(1), () => setFailed(true));
  }, [screen]);
  const Component = components.get(screen.id);
  if (screen.right && !may(...screen.right)) return html`<${NoRight} of=${screen.right} />`;
  if (hasFailed) return html`<${Stale} />`;
  if (!Component || (screen.module && !running.value)) return html`<${Loading} />`;
  if (screen.module && !running.value?.has(screen.module)) return html`<${NeedsModule} name=${screen.module} />`;
  return html`<${Component} rest=${rest} query=${query} />`;
}

const Stale = () => html`
  <div class="alone">
    <p>${t.app.updated}</p>
    <${Button} kind="main" onClick=${() => location.reload()}>${t.app.reload}<//>
  </div>`;

/** @param {{of: [string, string]}} props */
const NoRight = ({ of: [module, capability] }) => html`
  <div class="alone">
    <h1>${t.right.title}</h1>
    <p>${t.right.why(module, capability)}</p>
    <${Command}>parachute keys create NAME --scope '*:read,write,admin'<//>
  </div>`;

/** @param {{name: string}} props */
const NeedsModule = ({ name }) => html`
  <div class="alone">
    <h1>${t.needs.title(name)}</h1>
    <p>${t.needs.why(name)}</p>
    <${Command}>parachute modules install parachute://${name} --trust trusted<//>
    ${may('system', 'admin') && html`<p class="row"><a class="button main" href=${address('modules', [name])}>${t.modules.get}</a></p>`}
  </div>`;
