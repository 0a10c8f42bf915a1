/** Main: signs in, then shows the page. Everything else is loaded from here. */

import { html, render } from './vendor/view.js';
import { App, loadFirstScreen } from './ui/app.js';
import { openSession } from './lib/session.js';
import { startTheme } from './lib/theme.js';

startTheme();
openSession();
loadFirstScreen();
render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById('app')));
