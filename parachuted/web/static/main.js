/** Main: signs in, then shows the page. Everything else is loaded from here. */

import { html, render } from './vendor/view.js';
import { App, loadFirstScreen } from './ui/app.js';
import { openSession } from './lib/session.js';
import './lib/unsent.js'; // sends what an earlier page could not
import { startTheme } from './lib/theme.js';

startTheme();
openSession();
loadFirstScreen();
addEventListener('load', () => setTimeout(startLate, 1_000)); // after what is shown first
render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById('app')));

async function startLate() {
  import('./lib/waiting.js').then((waiting) => waiting.announceWaiting()).catch(() => {}); // a page that was cut off while it loads is loaded again
  await import('./lib/workers.js').then((workers) => workers.startServiceWorker()).catch(() => {}); // Health says what the page lacks without it
}
