/**
 * Editor: a note's text in CodeMirror, saved as it is typed. What others write meanwhile is merged by
 * the daemon and appears, with the cursor where it was; where both changed the same lines, a person
 * chooses.
 */

import {
  Annotation, EditorState, EditorView, GFM, HighlightStyle, Language, LanguageSupport, Transaction, defaultKeymap, defineLanguageFacet,
  drawSelection, highlightActiveLine, history, historyKeymap, indentWithTab, keymap, parser, search, searchKeymap, syntaxHighlighting, tags,
} from '../../vendor/editor.js';
import { html, useEffect, useRef, useState } from '../../vendor/view.js';
import { ApiError, ask, inAddress } from '../../lib/api.js';
import { smallestChange } from '../../lib/diff.js';
import { listen } from '../../lib/events.js';
import { t } from '../../lib/strings.js';
import { Diff } from '../../ui/diff.js';
import { Button, Loading, Problem } from '../../ui/parts.js';
import { readNote } from './note-text.js';
import { Preview } from './preview.js';

const PAUSE_MS = 700;
const AGAIN_MS = 4_000;
const DRAFT_MS = 250; // a draft of a large note is written at most that often
const SMALL = 50_000; // characters; a draft of so many is written at each key
const LONG = 4_000; // characters; of a longer paragraph the parts are coloured apart
const DRAFT = 'parachute.note.';
const fromElsewhere = Annotation.define();

// A paragraph is parsed whole at each key, however long it is, so a long one ends early for the parser.
const shortLeaves = { parseBlock: [{ name: 'ShortLeaf', endLeaf: (/** @type {any} */ _, /** @type {any} */ __, /** @type {{content: string}} */ leaf) => leaf.content.length > LONG }] };
const markdown = new LanguageSupport(new Language(defineLanguageFacet(), parser.configure([GFM, shortLeaves]), [], 'markdown'));
const colours = HighlightStyle.define([
  { tag: tags.heading1, class: 'md-h1' },
  { tag: tags.heading2, class: 'md-h2' },
  { tag: tags.heading, class: 'md-h3' },
  { tag: tags.strong, class: 'md-strong' },
  { tag: tags.emphasis, class: 'md-em' },
  { tag: [tags.link, tags.url], class: 'md-link' },
  { tag: tags.monospace, class: 'md-code' },
  { tag: tags.quote, class: 'md-quote' },
  { tag: [tags.processingInstruction, tags.comment], class: 'md-mark' },
]);

/** @typedef {'saved' | 'typing' | 'saving' | 'lost' | 'refused'} Status */

/** One note in an editor: what it holds, and what the daemon is known to hold. */
class OpenNote {
  /** @param {string} path @param {HTMLElement} place @param {(status: Status, more?: any) => void} tell */
  constructor(path, place, tell) {
    this.path = path;
    this.tell = tell;
    this.hash = '';
    this.timer = 0;
    this.draftTimer = 0;
    this.isSaving = false;
    this.isOver = false;
    this.isOld = false;
    this.conflict = /** @type {any} */ (null);
    const nonce = document.querySelector('meta[name=style-nonce]')?.getAttribute('content') ?? '';
    this.view = new EditorView({
      parent: place,
      extensions: [
        history(), drawSelection(), highlightActiveLine(), EditorView.lineWrapping, markdown, syntaxHighlighting(colours), search(),
        keymap.of([{ key: 'Mod-s', run: () => { this.save(); return true; } }, ...defaultKeymap, ...historyKeymap, ...searchKeymap, indentWithTab]),
        EditorView.cspNonce.of(nonce),
        EditorView.contentAttributes.of({ 'aria-label': t.vault.editor(path), spellcheck: 'true' }),
        EditorState.tabSize.of(2),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !update.transactions.some((one) => one.annotation(fromElsewhere))) this.typed();
        }),
      ],
    });
    this.saved = this.view.state.doc;
  }

  get text() { return this.view.state.doc.toString(); }

  get isChanged() { return !this.view.state.doc.eq(this.saved); } // both share what is the same in them

  async load() {
    const { text, hash } = await readNote(this.path);
    this.take(text, hash);
    this.restoreDraft();
    this.view.focus();
  }

  /** Shows the daemon's text, and keeps the cursor where it was. @param {string} text @param {string} hash */
  take(text, hash) {
    const shown = text.replaceAll('\r\n', '\n');
    if (shown !== this.text) {
      this.view.dispatch({
        changes: smallestChange(this.text, shown),
        annotations: [fromElsewhere.of(true), Transaction.addToHistory.of(false)],
      });
    }
    this.lineEnd = text.includes('\r\n') ? '\r\n' : '\n';
    this.saved = this.view.state.doc;
    this.hash = hash;
    this.tell('saved');
  }

  typed() {
    if (this.view.state.doc.length <= SMALL) this.keepDraft();
    else if (!this.draftTimer) this.draftTimer = setTimeout(() => this.keepDraft(), DRAFT_MS);
    if (this.conflict) this.tell('refused', { conflict: this.conflict });
    else {
      this.tell('typing');
      this.later(PAUSE_MS);
    }
  }

  /** Keeps what the daemon does not hold yet, with the version it was typed into, beyond this page. */
  keepDraft() {
    clearTimeout(this.draftTimer);
    this.draftTimer = 0;
    localStorage.removeItem(DRAFT + this.path);
    if (!this.isChanged) return;
    try {
      localStorage.setItem(DRAFT + this.path, JSON.stringify({ text: this.text, hash: this.hash }));
    } catch (error) {
      if (!isFull(error)) throw error; // what this browser has no room for, the daemon has within a second
    }
  }

  /** Text that was typed before and not saved; saving it merges, or asks which to keep. */
  restoreDraft() {
    const kept = localStorage.getItem(DRAFT + this.path);
    if (kept === null) return;
    const { text, hash } = JSON.parse(kept);
    if (text !== this.text) {
      this.hash = hash;
      this.view.dispatch({ changes: smallestChange(this.text, text) });
    }
    this.keepDraft();
  }

  /** @param {number} ms */
  later(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.save(), ms);
  }

  async save() {
    clearTimeout(this.timer);
    if (this.isSaving || this.conflict || !this.isChanged) return;
    const sent = this.view.state.doc;
    const text = sent.toString();
    this.isSaving = true;
    this.tell('saving');
    try {
      const body = new Blob([this.lineEnd === '\r\n' ? text.replaceAll('\n', '\r\n') : text]);
      const told = await ask('PUT', `/api/notes/${inAddress(this.path)}`, { body, headers: { 'Content-Type': 'text/markdown', 'If-Match': `"${this.hash}"` } });
      this.saved = sent;
      this.hash = told.hash;
      this.keepDraft();
      this.tell(this.isChanged ? 'typing' : 'saved');
      if (told.merged) await this.fetch();
    } catch (error) {
      this.failed(error);
    } finally {
      this.isSaving = false;
    }
    if (this.isChanged && !this.conflict && !this.isOver) this.later(PAUSE_MS);
    else if (this.isOld && !this.isOver) await this.look(); // somebody wrote while this was sent
  }

  /** @param {unknown} error */
  failed(error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 409 && error.answer?.conflict) {
      this.conflict = error.answer.conflict;
      this.tell('refused', { conflict: this.conflict });
    } else if (error.status === 0 || error.status >= 500 || error.status === 429) {
      this.tell('lost', { error });
      if (!this.isOver) this.later(AGAIN_MS);
    } else this.tell('refused', { error });
  }

  /** Someone else wrote; what is typed here is saved first, which merges both. */
  async look() {
    this.isOld = true;
    if (this.isSaving || this.conflict) return;
    this.isOld = false;
    if (this.isChanged) await this.save();
    else await this.fetch();
  }

  async fetch() {
    try {
      const { text, hash } = await readNote(this.path, undefined, false);
      if (!this.isChanged && hash !== this.hash) this.take(text, hash);
      else if (this.isChanged) this.later(0);
      else if (text.replaceAll('\r\n', '\n') !== this.text) this.take(text, hash);
    } catch (error) {
      this.failed(error);
    }
  }

  /** Ends a conflict with this text. @param {string} text */
  async settle(text) {
    const { hash, text: theirs } = await readNote(this.path, undefined, false);
    this.conflict = null;
    this.hash = hash;
    this.saved = this.view.state.toText(theirs);
    this.view.dispatch({ changes: smallestChange(this.text, text) });
    this.keepDraft();
    this.tell('typing');
    await this.save();
  }

  close() {
    this.isOver = true;
    clearTimeout(this.timer);
    if (this.draftTimer) this.keepDraft();
    this.save();
    this.view.destroy();
  }
}

/** @param {unknown} error */
const isFull = (error) => error instanceof DOMException && error.name === 'QuotaExceededError';

/** @param {{path: string}} props */
export function NoteEditor({ path }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const open = useRef(/** @type {OpenNote | null} */ (null));
  const [told, setTold] = useState(/** @type {{status: Status | '', error?: Error, conflict?: any}} */ ({ status: '' }));
  useEffect(() => {
    const note = new OpenNote(path, /** @type {HTMLElement} */ (place.current), (status, more) => setTold({ status, ...more }));
    open.current = note;
    note.load().catch((error) => setTold({ status: 'refused', error }));
    const end = listen(['file.'], (event) => { if (event.event === 'reset' || event.data.path === path) note.look(); });
    const warn = (/** @type {BeforeUnloadEvent} */ event) => { if (note.isChanged) event.preventDefault(); };
    const keep = () => { if (note.draftTimer) note.keepDraft(); };
    addEventListener('beforeunload', warn);
    addEventListener('pagehide', keep);
    document.addEventListener('visibilitychange', keep);
    return () => {
      end();
      removeEventListener('beforeunload', warn);
      removeEventListener('pagehide', keep);
      document.removeEventListener('visibilitychange', keep);
      note.close();
    };
  }, [path]);
  return html`
    ${told.status === '' && html`<${Loading} />`}
    ${told.conflict && html`<${Conflict} of=${told.conflict} mine=${open.current?.text ?? ''} choose=${(/** @type {string} */ text) => open.current?.settle(text)} />`}
    ${told.status === 'refused' && told.error && html`<${Problem} error=${told.error} retry=${() => open.current?.save()} />`}
    <div class="writing">
      <div class="editor" ref=${place}></div>
      <${Preview} path=${path} note=${open.current} told=${told} />
    </div>
    <p class="soft" role="status">${told.status ? t.vault.status[told.status] : ''}</p>`;
}

/** @param {{of: any, mine: string, choose: (text: string) => void}} props */
const Conflict = ({ of, mine, choose }) => html`
  <section class="card" role="alert">
    <h2>${t.vault.conflict}</h2>
    <p>${t.vault.conflictWhy}</p>
    <${Diff} before=${textOf(of.theirs)} after=${mine} />
    <div class="row">
      <${Button} kind="main" onClick=${() => choose(mine)}>${t.vault.keepMine}<//>
      <${Button} onClick=${() => choose(textOf(of.theirs))}>${t.vault.takeTheirs}<//>
    </div>
  </section>`;

/** @param {any} side */
const textOf = (side) => (typeof side === 'string' ? side : side?.content ?? '');
