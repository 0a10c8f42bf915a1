/** Screens: all that there are, in the order of the navigation. Each is loaded when it is shown. */

import { t } from '../lib/strings.js';

/**
 * A screen is given what stands in the address after its name.
 * @typedef {{rest: string[], query: URLSearchParams}} ScreenProps
 * @typedef {object} Screen
 * @property {string} id its name in the address
 * @property {string} name
 * @property {import('../ui/icon.js').IconName} icon
 * @property {() => Promise<{default: (props: ScreenProps) => any}>} load
 * @property {string} [module] the module that must run
 * @property {[string, 'read' | 'write' | 'admin']} [right] what the caller must be allowed
 * @property {boolean} [isFirst] shown in the bar of a phone
 * @property {boolean} [isHidden] not in the navigation
 * @property {boolean} [isRare] shown apart, below those of every day
 */

/** @type {Screen[]} */
export const SCREENS = [
  { id: 'journal', name: t.journal.title, icon: 'journal', module: 'daily', isFirst: true, load: () => import('./journal/journal.js') },
  { id: 'vault', name: t.vault.title, icon: 'vault', isFirst: true, load: () => import('./vault/vault.js') },
  { id: 'chat', name: t.chat.title, icon: 'chat', module: 'chat', isFirst: true, load: () => import('./chat/chat.js') },
  { id: 'brain', name: t.brain.title, icon: 'brain', module: 'brain', load: () => import('./brain/brain.js') },
  { id: 'watches', name: t.watches.title, icon: 'watches', load: () => import('./watches/watches.js') },
  { id: 'suggestions', name: t.suggestions.title, icon: 'suggestions', load: () => import('./suggestions/suggestions.js') },
  { id: 'runs', name: t.runs.title, icon: 'runs', isFirst: true, load: () => import('./runs/runs.js') },
  { id: 'usage', name: t.usage.title, icon: 'usage', right: ['system', 'read'], load: () => import('./usage/usage.js') },
  { id: 'activity', name: t.activity.title, icon: 'activity', right: ['system', 'admin'], load: () => import('./activity/activity.js') },
  { id: 'modules', name: t.modules.title, icon: 'module', isRare: true, right: ['system', 'admin'], load: () => import('./modules/modules.js') },
  { id: 'bots', name: t.bots.title, icon: 'bot', module: 'bots', isRare: true, right: ['bots', 'admin'], load: () => import('./bots/bots.js') },
  { id: 'hooks', name: t.hooks.title, icon: 'hook', isRare: true, right: ['system', 'admin'], load: () => import('./hooks/hooks.js') },
  { id: 'agents', name: t.agents.title, icon: 'agent', isRare: true, right: ['curator', 'admin'], load: () => import('./agents/agents.js') },
  { id: 'keys', name: t.keys.title, icon: 'key', isRare: true, right: ['system', 'admin'], load: () => import('./keys/keys.js') },
  { id: 'health', name: t.health.title, icon: 'health', isRare: true, right: ['curator', 'admin'], load: () => import('./health/health.js') },
  { id: 'settings', name: t.settings.title, icon: 'settings', isRare: true, right: ['system', 'admin'], load: () => import('./settings/settings.js') },
  { id: 'first', name: t.first.title, icon: 'check', isHidden: true, right: ['system', 'admin'], load: () => import('./first/first.js') },
];
