/** Waiting: says on any screen that an agent waits for the person, or suggests a change, and leads there. */

import { listen } from './events.js';
import { address, go, route } from './router.js';
import { t } from './strings.js';
import { toast } from './toasts.js';

/** @type {Record<string, {screen: string, text: (data: Record<string, any>) => string}>} */
const KINDS = {
  'permission.requested': { screen: 'suggestions', text: (data) => t.waiting.permission(String(data.agent), String(data.what)) },
  'session.notification': { screen: 'chat', text: (data) => `${data.title}: ${data.message}` },
  'suggestion.created': { screen: 'suggestions', text: (data) => t.waiting.suggestion(String(data.path)) },
};

/** Listens from now on; nothing is said on the screen that shows it anyway. */
export const announceWaiting = () => listen(Object.keys(KINDS), ({ event, data }) => {
  const kind = KINDS[event];
  if (!kind || route.peek().screen === kind.screen) return; // `reset` tells of nothing that waits
  toast(kind.text(data), { action: t.waiting.show, act: () => go(address(kind.screen)) });
});
