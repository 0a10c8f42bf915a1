/** Parts: small pieces that every screen is built of. */

import { html } from '../vendor/view.js';
import { t } from '../lib/strings.js';
import { Icon } from './icon.js';

/**
 * @param {{children?: any, kind?: 'main' | 'plain' | 'danger', icon?: import('./icon.js').IconName, [name: string]: any}} props
 */
export function Button({ children, kind = 'plain', icon, class: more = '', ...rest }) {
  return html`<button type="button" class="button ${kind} ${more}" ...${rest}>
    ${icon && html`<${Icon} name=${icon} />`}${children && html`<span>${children}</span>`}
  </button>`;
}

/** A button of which only the icon shows. @param {{icon: import('./icon.js').IconName, label: string, [name: string]: any}} props */
export const IconButton = ({ icon, label, ...rest }) => html`
  <button type="button" class="icon-button" aria-label=${label} title=${label} ...${rest}><${Icon} name=${icon} /></button>`;

/** Nothing to show, and why. @param {{children?: any}} props */
export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

/** While something is asked for. */
export const Loading = () => html`<p class="loading" role="status"><span class="hidden">${t.app.loading}</span></p>`;

/** What went wrong, and a way to try again. @param {{error: Error, retry?: () => void}} props */
export const Problem = ({ error, retry }) => html`
  <div class="problem" role="alert">
    <p>${error.message}</p>
    ${retry && html`<${Button} onClick=${retry}>${t.app.retry}<//>`}
  </div>`;

/**
 * What was loaded, or that it is not there yet.
 * @param {{of: import('../lib/load.js').Loaded<any>, children: (data: any) => any}} props
 */
export function Shown({ of, children }) {
  if (of.data !== undefined) return children(of.data);
  return of.error ? html`<${Problem} error=${of.error} retry=${of.reload} />` : html`<${Loading} />`;
}

/** A word in a frame, such as the state of a run. @param {{kind?: 'good' | 'bad' | 'wait' | 'plain', children?: any}} props */
export const Tag = ({ kind = 'plain', children }) => html`<span class="tag ${kind}">${children}</span>`;

/** A command that a person can type. @param {{children?: any}} props */
export const Command = ({ children }) => html`<pre class="command" tabindex="0"><code>${children}</code></pre>`;
