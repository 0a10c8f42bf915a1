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
 * @property {boolean} [isFirst] shown in the bar of a phone
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
  { id: 'usage', name: t.usage.title, icon: 'usage', load: () => import('./usage/usage.js') },
  { id: 'activity', name: t.activity.title, icon: 'activity', load: () => import('./activity/activity.js') },
];
