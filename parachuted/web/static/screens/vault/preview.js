/** Preview: how the note reads, beside the editor, while it is typed. */

import { html, useEffect, useState } from '../../vendor/view.js';
import { t } from '../../lib/strings.js';
import { Markdown } from '../../ui/markdown.js';

const PAUSE_MS = 150;
const MOST = 200_000; // characters
const NAME = 'parachute.preview';
const isWide = () => innerWidth >= 1_200;

/**
 * @param {{path: string, note: {text: string, view: any} | null, told: object}} props `told` is another object after each change
 */
export function Preview({ path, note, told }) {
  const [isShown, setShown] = useState(() => (localStorage.getItem(NAME) ?? (isWide() ? 'shown' : 'hidden')) === 'shown');
  const [text, setText] = useState(/** @type {string | null} */ (null));
  useEffect(() => {
    if (!isShown || !note) return undefined;
    const timer = setTimeout(() => setText(note.view.state.doc.length > MOST ? null : note.text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [isShown, note, told]);
  const toggle = () => {
    localStorage.setItem(NAME, isShown ? 'hidden' : 'shown');
    setShown(!isShown);
  };
  return html`
    <section class="preview ${isShown ? 'shown' : ''}" aria-label=${t.vault.preview}>
      <button type="button" class="button plain" aria-expanded=${isShown} onClick=${toggle}><span>${t.vault.preview}</span></button>
      ${isShown && (text === null ? note && html`<p class="soft">${note.view.state.doc.length > MOST ? t.vault.tooLong : ''}</p>` : html`<${Markdown} text=${text} base=${path} />`)}
    </section>`;
}
