/**
 * Conversation: its messages, and the turn that goes on. A turn belongs to the daemon: it is followed
 * from where it is when the page opens, and again after a lost connection.
 */

import { html, useEffect, useRef, useState } from '../../vendor/view.js';
import { ApiError, ask, get, keyHeaders, post } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address, go, replace } from '../../lib/router.js';
import { may } from '../../lib/session.js';
import { follow } from '../../lib/stream.js';
import { t } from '../../lib/strings.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { addUnsent, deliver, delivered, messageRequest, removeUnsent } from '../../lib/unsent.js';
import { Icon } from '../../ui/icon.js';
import { useLater } from '../../ui/later.js';
import { Button, Empty, IconButton, Loading, Problem, Shown } from '../../ui/parts.js';
import { Unsent } from '../../ui/unsent.js';
import { Compose } from './compose.js';
import { Message, Going } from './message.js';
import { Questions } from './questions.js';
import { after, newTurn } from './turn.js';

const SILENT_MS = 45_000;

/** @param {{id: string}} props empty: a new one */
export function Conversation({ id }) {
  const place = `/api/chat/${encodeURIComponent(id)}`;
  const session = useLoad((signal) => (id ? get(place, {}, signal) : Promise.resolve({ messages: [] })), [id]);
  const pending = useLoad((signal) => (id ? get(`${place}/pending-questions`, {}, signal) : Promise.resolve({ pending: [] })), [id]);
  const [turn, setTurn] = useState(/** @type {import('./turn.js').Turn | null} */ (null));
  const [isSheet, setSheet] = useState(false);
  const cut = useRef(new AbortController());
  const isGoing = useRef(false);
  useEffect(() => () => cut.current.abort(), []);

  /** Follows a turn to its end; throws what refused to begin it. @param {string} where @param {RequestInit} request @param {import('./turn.js').Turn} begun @param {(session: string) => void} [begins] is called once its message stands in the conversation */
  const run = async (/** @type {string} */ where, /** @type {RequestInit} */ request, /** @type {import('./turn.js').Turn} */ begun, begins = () => {}) => {
    if (isGoing.current) return;
    isGoing.current = true;
    let now = begun;
    let last = '';
    setTurn(now);
    const read = async (/** @type {string} */ at, /** @type {RequestInit} */ how) => {
      for await (const message of follow(at, how, { signal: cut.current.signal, silentMs: SILENT_MS })) {
        if (message.id) last = message.id;
        if (!message.data) continue;
        const told = JSON.parse(message.data);
        now = after(now, told);
        if (told.type === 'user_message') begins(now.session);
        setTurn(now);
        if (now.isOver) return;
      }
    };
    try {
      await read(where, request);
    } catch (error) {
      if (!last && !cut.current.signal.aborted) {
        isGoing.current = false;
        setTurn(null);
        throw error;
      }
    }
    while (!now.isOver && now.session && !cut.current.signal.aborted) {
      try {
        await read(`/api/chat/${encodeURIComponent(now.session)}/stream${last ? `?after=${encodeURIComponent(last)}` : ''}`, { headers: keyHeaders() });
        if (!(await get(`/api/chat/${encodeURIComponent(now.session)}/stream-status`)).active) break;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 2_000));
      }
    }
    isGoing.current = false;
    if (cut.current.signal.aborted) return;
    if (!id && now.fault) toast(`${now.fault.title} ${now.fault.message}`, { kind: 'problem' });
    if (!id && now.session) return replace(address('chat', [now.session]));
    setTurn(now.fault ? { ...now, isOver: true } : null);
    session.reload();
    pending.reload();
  };
  const resume = async () => {
    if (!id || isGoing.current) return;
    const told = await get(`${place}/stream-status`).catch(() => ({ active: false }));
    if (told.active) run(`${place}/stream`, { headers: keyHeaders() }, newTurn('', id)).catch(toastProblem);
  };
  useEffect(() => { resume(); }, [id]);
  useEvents(['chat.session.message', 'file.modified', 'file.moved', 'permission.'], (told) => {
    if (told.event === 'reset' || session.error || told.data.session_id === id || told.data.path === session.data?.path) {
      if (!isGoing.current) session.reload();
      pending.reload();
      resume();
    }
  });
  const say = async (/** @type {string} */ message, /** @type {any[]} */ attachments) => {
    if (isGoing.current && attachments.length) throw new Error(t.chat.attachLater);
    if (isGoing.current && turn?.session) return post(`/api/chat/${encodeURIComponent(turn.session)}/inject`, { message });
    const body = { message, module: 'chat', sessionId: id || 'new' };
    if (attachments.length) return begin({ method: 'POST', headers: { ...keyHeaders(), 'Content-Type': 'application/json' }, body: JSON.stringify({ ...body, attachments }) }, message);
    const item = addUnsent('message', body);
    const error = await deliver(item, () => begin(messageRequest(item), message));
    if (!error) return undefined;
    if (error instanceof ApiError && error.status >= 400 && error.status < 500) {
      removeUnsent(item);
      throw error;
    }
    return toast(t.unsent.kept);
  };
  /** Resolves, to the conversation, when the message stands in it. @param {RequestInit} request @param {string} message @returns {Promise<string>} */
  const begin = (request, message) => new Promise((resolve, reject) => {
    const missed = () => reject(new ApiError(0, t.unsent.lost));
    run('/api/chat', request, newTurn(message, id), resolve).then(missed, (error) => reject(error instanceof ApiError ? error : new ApiError(0, t.unsent.lost)));
  });
  useEffect(() => {
    const sent = delivered.value;
    if (!id && !isGoing.current && sent?.item.kind === 'message' && sent.item.body.sessionId === 'new') replace(address('chat', [sent.session]));
  }, [delivered.value]);
  const retry = () => run(`${place}/retry`, { method: 'POST', headers: keyHeaders() }, newTurn('', id)).catch(toastProblem);
  const stop = () => post(`/api/chat/${encodeURIComponent(turn?.session || id)}/abort`).catch(toastProblem);
  const fork = async (/** @type {string} */ messageId) => {
    try {
      go(address('chat', [(await post(`${place}/fork`, { messageId })).session.id]));
    } catch (error) {
      toastProblem(error);
    }
  };
  const questions = [...(pending.data?.pending ?? []).map(asQuestion), ...(turn?.questions ?? [])].filter((one, index, all) => all.findIndex((other) => other.requestId === one.requestId) === index);
  return html`
    <div class="conversation">
      <header class="row middle">
        <a class="back button" href=${address('chat')}><${Icon} name="left" />${t.chat.title}</a>
        <${Title} session=${session.data} place=${place} onChange=${session.reload} />
        ${id && session.data?.id && html`<${IconButton} icon="settings" label=${t.chat.sheet} aria-expanded=${isSheet} onClick=${() => setSheet(!isSheet)} />`}
        ${id && may('chat', 'write') && html`<${Archive} session=${session.data} place=${place} />`}
      </header>
      ${isSheet && session.data?.id && html`<${LateSheet} session=${session.data} place=${place} onChange=${session.reload} />`}
      <div class="messages" role="log" aria-live="off" tabindex="0" aria-label=${t.chat.messages} ref=${useStickiness([session.data, turn])}>
        <${Shown} of=${session}>${(/** @type {any} */ found) => html`
          ${found.messages.length === 0 && !turn && html`<${Empty}>${t.chat.first}<//>`}
          ${shownMessages(found.messages, turn).map((/** @type {any} */ one) => html`<${Message} key=${one.id} message=${one} fork=${id && may('chat', 'write') ? () => fork(one.id) : null} />`)}
          ${!turn && id && found.messages.at(-1)?.role === 'user' && may('chat', 'write') && html`<p><${Button} onClick=${retry}>${t.chat.again}<//></p>`}`}
        <//>
        ${turn && html`<${Going} turn=${turn} retry=${id ? retry : null} />`}
        <${Unsent} of=${(/** @type {import('../../lib/unsent.js').Unsent} */ one) => one.kind === 'message' && one.body.sessionId === (id || 'new')} text=${(/** @type {import('../../lib/unsent.js').Unsent} */ one) => one.body.message} />
        <${Questions} session=${turn?.session || id} questions=${questions} onAnswered=${pending.reload} />
      </div>
      <p class="hidden" role="status">${turn && !turn.isOver ? t.chat.answering : ''}</p>
      ${may('chat', 'write') && html`<${Compose} isGoing=${Boolean(turn && !turn.isOver)} say=${say} stop=${stop} id=${id} />`}
    </div>`;
}

/** @param {{session: any, place: string, onChange: () => void}} props */
function LateSheet(props) {
  const [file, error] = useLater(() => import('./sheet.js'));
  if (error) return html`<${Problem} error=${error} />`;
  return file ? html`<${file.Sheet} ...${props} />` : html`<${Loading} />`;
}

/** A turn's own question is shown with the turn. @param {any[]} messages @param {import('./turn.js').Turn | null} turn */
function shownMessages(messages, turn) {
  if (!turn?.asked || turn.isOver) return messages;
  const last = messages.at(-1);
  return last?.role === 'user' && textOf(last) === turn.asked ? messages.slice(0, -1) : messages;
}

/** @param {any} message */
const textOf = (message) => (typeof message.content === 'string' ? message.content : message.content.map((/** @type {any} */ one) => one.text ?? '').join(''));

/** @param {any} one @returns {import('./turn.js').Question} */
const asQuestion = (one) => ({ requestId: one.requestId ?? one.request_id, kind: one.kind ?? 'question', questions: one.questions });

/** Keeps the end in view, unless a person scrolled away from it. @param {any[]} on */
function useStickiness(on) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const isAtEnd = useRef(true);
  useEffect(() => {
    const box = place.current;
    const look = () => { if (box) isAtEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < 80; };
    box?.addEventListener('scroll', look);
    return () => box?.removeEventListener('scroll', look);
  }, []);
  useEffect(() => { if (isAtEnd.current && place.current) place.current.scrollTop = place.current.scrollHeight; }, on);
  return place;
}

/** @param {{session: any, place: string, onChange: () => void}} props */
function Title({ session, place, onChange }) {
  const [draft, setDraft] = useState(/** @type {string | null} */ (null));
  const title = session?.title || (session?.id ? t.chat.untitled : t.chat.begin);
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      if (draft?.trim()) await ask('PATCH', place, { body: { title: draft.trim() } });
      setDraft(null);
      onChange();
    } catch (error) {
      toastProblem(error);
    }
  };
  if (draft !== null) {
    return html`<form class="row grow" onSubmit=${save}><input class="grow" aria-label=${t.chat.name} value=${draft} onInput=${(/** @type {any} */ event) => setDraft(event.target.value)} /><${Button} kind="main" type="submit">${t.journal.save}<//></form>`;
  }
  return html`<h1 class="small grow">${title}</h1>${session?.id && may('chat', 'write') && html`<${IconButton} icon="edit" label=${t.chat.rename} onClick=${() => setDraft(session.title ?? '')} />`}`;
}

/** @param {{session: any, place: string}} props */
function Archive({ session, place }) {
  const act = async () => {
    try {
      await post(`${place}/${session.archived ? 'unarchive' : 'archive'}`);
      go(address('chat'));
    } catch (error) {
      toastProblem(error);
    }
  };
  return session ? html`<${Button} onClick=${act}>${session.archived ? t.chat.unarchive : t.chat.archive}<//>` : null;
}
