/** Navigation: at the left on wide windows; on narrow ones a bar below, with the rest behind a button. */

import { html, useEffect, useRef, useState } from '../vendor/view.js';
import { heldKey } from '../lib/api.js';
import { address, route } from '../lib/router.js';
import { signOut } from '../lib/session.js';
import { t } from '../lib/strings.js';
import { chooseTheme, theme } from '../lib/theme.js';
import { SCREENS } from '../screens/index.js';
import { Icon } from './icon.js';
import { isPaletteOpen } from './palette.js';
import { Button } from './parts.js';

/** @param {{at: string}} props */
export function Navigation({ at }) {
  const [isOpen, setOpen] = useState(false);
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => setOpen(false), [route.value]);
  useEffect(() => {
    if (!isOpen) return undefined;
    const close = (/** @type {any} */ event) => {
      if (event.key === 'Escape') /** @type {HTMLElement | null | undefined} */ (place.current?.querySelector('.more'))?.focus();
      if (event.key === 'Escape' || (event.type === 'pointerdown' && !place.current?.contains(event.target))) setOpen(false);
    };
    addEventListener('keydown', close);
    addEventListener('pointerdown', close);
    return () => {
      removeEventListener('keydown', close);
      removeEventListener('pointerdown', close);
    };
  }, [isOpen]);
  return html`
    <nav class="navigation ${isOpen ? 'open' : ''}" aria-label=${t.app.menu} ref=${place}>
      <a class="brand" href=${address(SCREENS[0].id)}>${t.app.name}</a>
      <button type="button" class="find" onClick=${() => { isPaletteOpen.value = true; }}><${Icon} name="search" /><span>${t.app.search}</span></button>
      <ul>
        ${SCREENS.filter((one) => !one.isHidden).map((one) => html`
          <li key=${one.id} class=${one.isFirst ? 'first' : one.isRare ? 'rare' : ''}>
            <a href=${address(one.id)} aria-current=${one.id === at ? 'page' : null}><${Icon} name=${one.icon} /><span>${one.name}</span></a>
          </li>`)}
      </ul>
      <button type="button" class="more" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}><${Icon} name="menu" /><span>${t.app.more}</span></button>
      <div class="foot">
        <label>${t.app.theme.name}
          <select value=${theme.value} onChange=${(/** @type {any} */ event) => chooseTheme(event.target.value)}>
            <option value="system">${t.app.theme.system}</option>
            <option value="light">${t.app.theme.light}</option>
            <option value="dark">${t.app.theme.dark}</option>
          </select>
        </label>
        ${heldKey() && html`<${Button} onClick=${signOut}>${t.app.signOut}<//>`}
      </div>
    </nav>`;
}
