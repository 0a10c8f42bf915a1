/**
 * Markdown: the one way from markdown to what is shown, for notes, chat and everything else.
 *
 * What a text says can run nothing and send nothing: it becomes a short list of elements, without
 * styles, ids, frames, forms or pictures from elsewhere. Pictures of the vault and links to notes
 * are marked (`data-file`, `data-note`), and ui/markdown.js makes them work.
 */

import { DOMPurify, Marked } from '../vendor/markdown.js';

const TAGS = [
  'a', 'abbr', 'b', 'blockquote', 'br', 'code', 'del', 'details', 'dd', 'div', 'dl', 'dt', 'em', 'h1', 'h2', 'h3',
  'h4', 'h5', 'h6', 'hr', 'i', 'input', 'ins', 'kbd', 'li', 'mark', 'ol', 'p', 'pre', 'q', 's', 'samp', 'small', 'span',
  'strong', 'sub', 'summary', 'sup', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'u', 'ul', 'var', 'wbr',
];
const ATTRIBUTES = ['align', 'checked', 'colspan', 'data-file', 'data-note', 'disabled', 'href', 'open', 'rowspan', 'start', 'type'];
const UNKNOWN_TAG = new RegExp(`<(?!/?(?:${TAGS.join('|')})(?:[\\s/>]|$))`, 'gi');
const ELSEWHERE = /^(https?:\/\/|mailto:)/i;
const FRONTMATTER = /^---\r?\n[\s\S]*?\r?\n---\r?\n/;

const wikilink = {
  name: 'wikilink',
  level: /** @type {'inline'} */ ('inline'),
  start: (/** @type {string} */ text) => text.match(/!?\[\[/)?.index,
  tokenizer(/** @type {string} */ text) {
    const found = /^(!?)\[\[([^\[\]|\n]+)(?:\|([^\[\]\n]*))?\]\]/.exec(text);
    return found ? { type: 'wikilink', raw: found[0], isShown: Boolean(found[1]), target: found[2].trim(), label: found[3]?.trim() || found[2].trim() } : undefined;
  },
  renderer(/** @type {any} */ token) {
    return token.isShown && isPicture(token.target)
      ? `<span data-file="${escaped(token.target)}">${escaped(token.label)}</span>`
      : `<a data-note="${escaped(token.target)}">${escaped(token.label)}</a>`;
  },
};

const marked = new Marked({ gfm: true, breaks: false, async: false, extensions: [wikilink] });
marked.use({
  renderer: {
    html({ text }) {
      // A tag that is not shown anyway stays readable, and hides nothing of what follows it.
      return text.replace(/<!--[\s\S]*?-->/g, '').replace(UNKNOWN_TAG, '&lt;');
    },
    image({ href, text }) {
      return ELSEWHERE.test(href) || href.startsWith('//') || /^[a-z][a-z0-9+.-]*:/i.test(href)
        ? `<a href="${escaped(href)}">${escaped(text || href)}</a>`
        : `<span data-file="${escaped(decoded(href))}">${escaped(text || href)}</span>`;
    },
    link({ href, tokens }) {
      const inner = this.parser.parseInline(tokens);
      return ELSEWHERE.test(href) || /^[a-z][a-z0-9+.-]*:|^\/\/|^#/i.test(href)
        ? `<a href="${escaped(href)}">${inner}</a>`
        : `<a data-note="${escaped(decoded(href))}">${inner}</a>`;
    },
  },
});

DOMPurify.addHook('afterSanitizeAttributes', (node) => {
  if (node.nodeName === 'A') sealLink(/** @type {HTMLElement} */ (node));
  if (node.nodeName === 'INPUT') sealBox(/** @type {HTMLInputElement} */ (node));
});

/**
 * The markdown as safe HTML, without its frontmatter. It is a TrustedHTML where browsers have that.
 * @param {string} text
 * @returns {any}
 */
export function render(text) {
  const source = text.replace(/^\uFEFF/, '').replace(FRONTMATTER, '');
  return sanitised(/** @type {string} */ (marked.parse(source)));
}

/**
 * HTML of a text's own, such as a snippet with `<mark>`, made safe.
 * @param {string} markup
 * @returns {any}
 */
export const sanitised = (markup) => DOMPurify.sanitize(markup, {
  ALLOWED_TAGS: TAGS,
  ALLOWED_ATTR: ATTRIBUTES,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOWED_URI_REGEXP: ELSEWHERE,
  // DOMPurify holds the value of every attribute against that expression, but for these.
  ADD_URI_SAFE_ATTR: ATTRIBUTES.filter((name) => name !== 'href'),
  RETURN_TRUSTED_TYPE: true,
});

/** Whether a file of that name is shown as a picture. @param {string} name */
export const isPicture = (name) => /\.(png|jpe?g|gif|webp)$/i.test(name);

/** A link elsewhere shows its address and opens in a tab that knows nothing of this one. @param {HTMLElement} link */
function sealLink(link) {
  const href = link.getAttribute('href');
  if (href === null) return;
  if (!ELSEWHERE.test(href)) {
    link.removeAttribute('href');
    return;
  }
  link.setAttribute('target', '_blank');
  link.setAttribute('rel', 'noopener noreferrer');
  link.setAttribute('title', href);
  const host = hostOf(href);
  if (!(link.textContent ?? '').includes(host)) {
    const shown = document.createElement('small');
    shown.textContent = ` (${host})`;
    link.append(shown);
  }
}

/** A box of a task list; it is ticked in the editor. @param {HTMLInputElement} box */
function sealBox(box) {
  const isTicked = box.hasAttribute('checked');
  for (const name of box.getAttributeNames()) box.removeAttribute(name);
  box.setAttribute('type', 'checkbox');
  box.setAttribute('disabled', '');
  box.setAttribute('aria-label', isTicked ? 'done' : 'open');
  if (isTicked) box.setAttribute('checked', '');
}

/** @param {string} href */
function hostOf(href) {
  try {
    const url = new URL(href);
    return url.host || url.pathname;
  } catch {
    return href;
  }
}

/** @param {string} text */
const escaped = (text) => text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
