/** Voice: a recording from this device's microphone, with its level, and pictures; each becomes an entry. */

import { html, useEffect, useRef, useState } from '../../vendor/view.js';
import { post } from '../../lib/api.js';
import { t } from '../../lib/strings.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Button } from '../../ui/parts.js';
import { upload } from './uploads.js';

const KINDS = [['audio/mp4', 'm4a'], ['audio/webm', 'webm'], ['audio/ogg', 'ogg']];

/** @param {{momentOf: () => string, onDone: () => void}} props `momentOf`: the time of a new entry */
export function Voice({ momentOf, onDone }) {
  const [state, setState] = useState(/** @type {'idle' | 'recording' | 'paused' | 'sending' | 'kept'} */ ('idle'));
  const [share, setShare] = useState(0);
  const [isLost, setLost] = useState(false);
  const recorder = useRef(/** @type {MediaRecorder | null} */ (null));
  const kept = useRef(/** @type {{file: Blob, type: 'audio' | 'photo', name: string} | null} */ (null));
  const cut = useRef(new AbortController());
  const picker = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => () => {
    cut.current.abort();
    recorder.current?.stream.getTracks().forEach((one) => one.stop());
  }, []);
  useEffect(() => {
    if (state === 'idle') return undefined;
    const warn = (/** @type {BeforeUnloadEvent} */ event) => event.preventDefault(); // what is not sent yet would be lost
    addEventListener('beforeunload', warn);
    return () => removeEventListener('beforeunload', warn);
  }, [state === 'idle']);
  const send = async () => {
    if (!kept.current) return;
    const { file, type, name } = kept.current;
    setState('sending');
    try {
      const path = await upload(file, type, name, { signal: cut.current.signal, onProgress: (done, lost) => { setShare(done); setLost(lost); } });
      await post('/api/daily/entries', { content: '', created_at: momentOf(), metadata: { [type === 'audio' ? 'audio' : 'image']: path } });
      kept.current = null;
      setState('idle');
      toast(t.journal.added);
      onDone();
    } catch (error) {
      if (cut.current.signal.aborted) return;
      setState('kept');
      toastProblem(error);
    }
  };
  const record = async () => {
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
      const [mime, suffix] = KINDS.find(([one]) => MediaRecorder.isTypeSupported(one)) ?? ['', 'webm'];
      const made = new MediaRecorder(stream, mime ? { mimeType: mime } : {});
      const pieces = /** @type {Blob[]} */ ([]);
      made.addEventListener('dataavailable', (event) => pieces.push(event.data));
      made.addEventListener('stop', () => {
        stream.getTracks().forEach((one) => one.stop());
        if (cut.current.signal.aborted) return;
        kept.current = { file: new Blob(pieces, { type: made.mimeType }), type: 'audio', name: `recording.${suffix}` };
        send();
      });
      recorder.current = made;
      made.start(1_000);
      setState('recording');
    } catch (error) {
      toast(t.journal.noMicrophone(/** @type {Error} */ (error).message), { kind: 'problem' });
    }
  };
  const pause = () => {
    if (state === 'recording') recorder.current?.pause();
    else recorder.current?.resume();
    setState(state === 'recording' ? 'paused' : 'recording');
  };
  const picture = (/** @type {any} */ event) => {
    const [file] = event.target.files;
    event.target.value = '';
    if (!file) return;
    kept.current = { file, type: 'photo', name: file.name };
    send();
  };
  if (state === 'recording' || state === 'paused') {
    return html`<div class="row middle voice"><${Level} stream=${/** @type {MediaRecorder} */ (recorder.current).stream} isPaused=${state === 'paused'} />
      <${Button} onClick=${pause}>${state === 'paused' ? t.journal.goOn : t.journal.pause}<//><${Button} kind="main" icon="stop" onClick=${() => recorder.current?.stop()}>${t.journal.stop}<//></div>`;
  }
  if (state === 'sending') return html`<div class="voice" role="status"><label>${isLost ? t.journal.uploadLost : t.journal.uploading}<progress max="1" value=${share}></progress></label></div>`;
  return html`<div class="row middle voice">
    ${state === 'kept' && html`<${Button} kind="main" onClick=${send}>${t.journal.sendAgain}<//>`}
    ${isSecureContext && navigator.mediaDevices ? html`<${Button} icon="mic" onClick=${record}>${t.journal.record}<//>` : html`<span class="soft grow">${t.journal.needsTls}</span>`}
    <input type="file" accept="image/*" hidden ref=${picker} onChange=${picture} /><${Button} icon="plus" onClick=${() => picker.current?.click()}>${t.journal.picture}<//></div>`;
}

/** How loud it is, several times a second. @param {{stream: MediaStream, isPaused: boolean}} props */
function Level({ stream, isPaused }) {
  const [level, setLevel] = useState(0);
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    if (isPaused) return undefined;
    const context = new AudioContext();
    const analyser = context.createAnalyser();
    context.createMediaStreamSource(stream).connect(analyser);
    const heard = new Uint8Array(analyser.fftSize);
    const timer = setInterval(() => {
      analyser.getByteTimeDomainData(heard);
      setLevel(Math.max(...heard.map((one) => Math.abs(one - 128))) / 128);
      setSeconds((before) => before + 0.1);
    }, 100);
    return () => {
      clearInterval(timer);
      context.close();
    };
  }, [stream, isPaused]);
  return html`<span class="row middle grow"><meter min="0" max="1" value=${isPaused ? 0 : level} aria-label=${t.journal.level}></meter><span class="soft">${t.journal.length(seconds)}</span></span>`;
}
