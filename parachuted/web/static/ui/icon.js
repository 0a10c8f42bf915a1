/** Icon: a line drawing of 20 by 20, in the colour of the text beside it. */

import { html } from '../vendor/view.js';

const PATHS = {
  journal: 'M5 3.5h9.5v13H5a1.5 1.5 0 0 1-1.5-1.5V5A1.5 1.5 0 0 1 5 3.5zM7 3.5v13M9.5 7.5h3M9.5 10h3',
  vault: 'M3.5 5.5h4.5l1.5 2h7v8h-13z',
  runs: 'M4 10a6 6 0 1 0 2-4.5M4 3.5v3h3M10 7v3.5l2.5 1.5',
  chat: 'M3.5 4.5h13v9h-7l-3.5 3v-3h-2.5z',
  suggestions: 'M4 5.5l1.5 1.5L8 4.5M4 11.5l1.5 1.5L8 10.5M10.5 6h6M10.5 12h6',
  brain: 'M10 5.5a2 2 0 1 0-.01 0M5 14.5a2 2 0 1 0-.01 0M15 14.5a2 2 0 1 0-.01 0M9 7l-3 5.5M11 7l3 5.5M7 14.5h6',
  watches: 'M2.5 10s3-4.5 7.5-4.5 7.5 4.5 7.5 4.5-3 4.5-7.5 4.5S2.5 10 2.5 10zM10 8a2 2 0 1 0 .01 0',
  usage: 'M4 16.5V11M8 16.5V6M12 16.5V9M16 16.5V3.5M3 16.5h14',
  activity: 'M3 10h3l2-5 4 10 2-5h3',
  fork: 'M6 4v12M6 11c0-3 8-1 8-4.5M6 4a1 1 0 1 0 .01 0M14 4.5a1 1 0 1 0 .01 0M6 15a1 1 0 1 0 .01 0',
  settings: 'M4 6h7M14 6h2M4 10h2M9 10h7M4 14h7M14 14h2M11 4.5v3h3v-3zM6 8.5v3h3v-3zM11 12.5v3h3v-3z',
  search: 'M9 4a5 5 0 1 0 .01 0M12.5 12.5l4 4',
  menu: 'M3.5 6h13M3.5 10h13M3.5 14h13',
  close: 'M5 5l10 10M15 5L5 15',
  left: 'M12 5l-5 5 5 5',
  right: 'M8 5l5 5-5 5',
  down: 'M5 8l5 5 5-5',
  edit: 'M4 16l1-4 8-8 3 3-8 8zM11.5 5.5l3 3',
  trash: 'M4.5 6h11M8 6V4h4v2M6 6l.7 10h6.6L14 6',
  undo: 'M4 8h8a4 4 0 0 1 0 8H8M4 8l3.5-3.5M4 8l3.5 3.5',
  send: 'M3.5 10L16.5 4l-4 12.5-3-5z',
  stop: 'M6 6h8v8H6z',
  check: 'M4 10.5l4 4 8-9',
  plus: 'M10 4v12M4 10h12',
  note: 'M5 3.5h7l3 3v10H5zM12 3.5v3h3M7.5 10h5M7.5 13h5',
  folder: 'M3.5 5.5h4.5l1.5 2h7v8h-13z',
  key: 'M7 8a3 3 0 1 0 .01 0M9.5 10.5l7 0M14 10.5v3M16.5 10.5v2',
  mic: 'M10 3.5a2 2 0 0 1 2 2v4a2 2 0 0 1-4 0v-4a2 2 0 0 1 2-2M5.5 9.5a4.5 4.5 0 0 0 9 0M10 14v2.5',
  clock: 'M10 3.5a6.5 6.5 0 1 0 .01 0M10 6.5V10l2.5 2',
  tool: 'M12.5 4a3.5 3.5 0 0 0-4 5L4 13.5 6.5 16l4.5-4.5a3.5 3.5 0 0 0 5-4l-2.5 2-2-2z',
  module: 'M3.5 6.5L10 3l6.5 3.5v7L10 17l-6.5-3.5zM3.5 6.5L10 10l6.5-3.5M10 10v7',
  hook: 'M7 4v6a3.5 3.5 0 1 0 7 0V8.5M12 10.5l2-2 2 2',
  agent: 'M5 7.5h10v8H5zM10 4.5v3M7.8 11v.5M12.2 11v.5M8 16v1M12 16v1',
  bot: 'M3.5 4.5h13v9h-7l-3.5 3v-3h-2.5zM7.5 8.5v1M12.5 8.5v1',
  health: 'M3 10.5h3l2-5 3.5 9 2-4H17',
  warning: 'M10 4l7 12H3zM10 8.5v3.5M10 14v.2',
};

/** @typedef {keyof typeof PATHS} IconName */

/** @param {{name: IconName}} props */
export const Icon = ({ name }) => html`
  <svg class="icon" viewBox="0 0 20 20" width="20" height="20" aria-hidden="true" focusable="false">
    <path d=${PATHS[name]} fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" />
  </svg>`;
