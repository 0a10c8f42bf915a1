/** Linked chat: the chat elsewhere that a conversation is, with a way to move or end the link. */

import { html, useState } from '../../vendor/view.js';
import { ask, get } from '../../lib/api.js';
import { useLoad } from '../../lib/load.js';
import { running } from '../../lib/modules.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { toastProblem } from '../../lib/toasts.js';
import { Button } from '../../ui/parts.js';

/** @param {{session: any, onChange: () => void}} props */
export function LinkedChat({ session, onChange }) {
  const mayLink = may('bots', 'admin') && Boolean(running.value?.has('bots'));
  const [chosen, choose] = useState('');
  const loaded = useLoad((signal) => (mayLink ? get('/api/bots/chats', {}, signal) : Promise.resolve({ chats: [] })), [mayLink, session.linkedBotChatId]);
  const chats = (loaded.data?.chats ?? []).filter((/** @type {any} */ one) => one.session_id !== session.id);
  if (!session.linkedBotPlatform && !mayLink) return null;
  const act = async (/** @type {string} */ method, /** @type {any} */ body) => {
    try {
      await ask(method, `/api/bots/links/${encodeURIComponent(session.id)}`, { body });
      choose('');
    } catch (error) {
      toastProblem(error);
    }
    loaded.reload();
    onChange();
  };
  const link = (/** @type {Event} */ event) => {
    event.preventDefault();
    const [platform, chatId] = JSON.parse(chosen);
    act('PUT', { platform, chat_id: chatId });
  };
  return html`
    <form class="linked" onSubmit=${link}><fieldset>
      <legend>${t.bots.linked} <span class="soft">${session.linkedBotPlatform ? t.bots.linkedTo(t.bots.platforms[session.linkedBotPlatform] ?? session.linkedBotPlatform, t.bots.kinds[session.linkedBotChatType ?? 'dm']) : t.bots.notLinked}</span></legend>
      ${mayLink && html`<div class="row">
        ${chats.length > 0 && html`<label>${t.bots.chat}<select required value=${chosen} onChange=${(/** @type {any} */ event) => choose(event.target.value)}>
          <option value="">${t.bots.chooseChat}</option>
          ${chats.map((/** @type {any} */ one) => { const key = JSON.stringify([one.platform, one.chat_id]); return html`<option key=${key} value=${key}>${t.bots.chatName(t.bots.platforms[one.platform], one.name, one.session_title)}</option>`; })}</select></label>
          <${Button} type="submit" disabled=${!chosen}>${t.bots.link}<//>`}
        ${session.linkedBotPlatform && html`<${Button} onClick=${() => act('DELETE', undefined)}>${t.bots.unlink}<//>`}
      </div><p class="soft">${chats.length > 0 ? t.bots.linkWhy : t.bots.noChats}</p>`}
    </fieldset></form>`;
}
