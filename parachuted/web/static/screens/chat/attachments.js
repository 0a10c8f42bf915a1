/** Attachments: files that go with a message, by choice, drop and paste. */

import { html } from '../../vendor/view.js';
import { t } from '../../lib/strings.js';
import { toast } from '../../lib/toasts.js';
import { IconButton } from '../../ui/parts.js';

const MOST = 20;
const LARGEST = 20 << 20;

/** Those that may go with a message; of the others a toast says why not. @param {File[]} held @param {Iterable<File>} more */
export function withFiles(held, more) {
  const fits = [...more].filter((one) => {
    if (one.size > LARGEST) toast(t.chat.tooLarge(one.name), { kind: 'problem' });
    return one.size <= LARGEST;
  });
  if (held.length + fits.length > MOST) toast(t.chat.tooMany(MOST), { kind: 'problem' });
  return [...held, ...fits].slice(0, MOST);
}

/** As the API takes them. @param {File[]} files */
export const asAttachments = (files) => Promise.all(files.map(async (one) => ({ fileName: one.name, mimeType: one.type, base64Data: await base64(one) })));

/** @param {Blob} file @returns {Promise<string>} */
const base64 = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(String(reader.result).split(',')[1] ?? '');
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(file);
});

/** @param {{files: File[], onChange: (files: File[]) => void}} props */
export const Attached = ({ files, onChange }) => (files.length === 0 ? null : html`
  <ul class="attached">${files.map((one, index) => html`<li key=${index}>${one.name} <span class="soft">${t.vault.size(one.size)}</span><${IconButton} icon="close" label=${t.chat.leaveOut(one.name)} onClick=${() => onChange(files.filter((_, at) => at !== index))} /></li>`)}</ul>`);
