/**
 * Voice: a recording from this device's microphone, with its level, and pictures; each becomes an entry. Until
 * it is one, it is kept in this browser too, and what an earlier page did not send is offered again.
 */

import { html, useEffect, useRef, useState } from '../../vendor/view.js';
import { post } from '../../lib/api.js';
import { dropRecording, hold, keepPiece, keepRecording, keptRecordings, wholeOf } from '../../lib/recordings.js';
import { t } from '../../lib/strings.js';
import { momentName } from '../../lib/times.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Confirm } from '../../ui/confirm.js';
import { Button } from '../../ui/parts.js';
import { upload } from './uploads.js';

/** @typedef {import('../../lib/recordings.js').Recording} Recording */

const KINDS = [['audio/mp4', 'm4a'], ['audio/webm', 'webm'], ['audio/ogg', 'ogg']];

/** @param {{momentOf: () => string, onDone: () => void}} props `momentOf`: the time of a new entry */
export function Voice({ momentOf, onDone }) {
  const [state, setState] = useState(/** @type {'idle' | 'recording' | 'paused' | 'sending'} */ ('idle'));
  const [share, setShare] = useState(0);
  const [isLost, setLost] = useState(false);
  const [kept, setKept] = useState(/** @type {Recording[]} */ ([]));
  const recorder = useRef(/** @type {MediaRecorder | null} */ (null));
  const cut = useRef(new AbortController());
  const picker = useRef(/** @type {HTMLInputElement | null} */ (null));
  const look = () => keptRecordings().then(setKept, toastProblem);
  useEffect(() => {
    look();
    return () => {
      cut.current.abort();
      recorder.current?.stream.getTracks().forEach((one) => one.stop());
    };
  }, []);
  const isRecording = state === 'recording' || state === 'paused';
  useEffect(() => {
    if (!isRecording) return undefined;
    const warn = (/** @type {BeforeUnloadEvent} */ event) => event.preventDefault(); // leaving ends the recording
    addEventListener('beforeunload', warn);
    return () => removeEventListener('beforeunload', warn);
  }, [isRecording]);

  const send = async (/** @type {Recording} */ one, /** @type {Blob} */ file) => {
    if (cut.current.signal.aborted) return;
    setState('sending');
    try {
      const path = await upload(file, one.type, one.name, { signal: cut.current.signal, onProgress: (done, lost) => { setShare(done); setLost(lost); } });
      await post('/api/daily/entries', { content: '', created_at: one.at, metadata: { [one.type === 'audio' ? 'audio' : 'image']: path } });
      await dropRecording(one.id);
      toast(t.journal.added);
      onDone();
    } catch (error) {
      if (!cut.current.signal.aborted) toastProblem(error);
    }
    setState('idle');
  };
  /** Does something with one that is kept; where that fails, it is offered again. @param {Recording} one @param {() => Promise<unknown>} act */
  const workOn = (one, act) => hold(one.id, act).then(look, toastProblem);
  const record = async () => {
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
      const [mime, suffix] = KINDS.find(([type]) => MediaRecorder.isTypeSupported(type)) ?? ['', 'webm'];
      const made = new MediaRecorder(stream, mime ? { mimeType: mime } : {});
      const one = newRecording('audio', `recording.${suffix}`, mime, momentOf());
      recorder.current = made;
      await keepRecording(one);
      workOn(one, async () => send(one, await recorded(made, one.id, () => setState('recording'))));
    } catch (error) {
      toast(t.journal.noMicrophone(/** @type {Error} */ (error).message), { kind: 'problem' });
    }
  };
  const pause = () => {
    if (state === 'recording') recorder.current?.pause();
    else recorder.current?.resume();
    setState(state === 'recording' ? 'paused' : 'recording');
  };
  const picture = async (/** @type {any} */ event) => {
    const [file] = event.target.files;
    event.target.value = '';
    if (!file) return;
    const one = newRecording('photo', file.name, file.type, momentOf());
    await keepRecording(one).then(() => keepPiece(one.id, file)).catch(toastProblem);
    workOn(one, () => send(one, file));
  };
  if (isRecording) {
    return html`<div class="row middle voice"><${Level} stream=${/** @type {MediaRecorder} */ (recorder.current).stream} isPaused=${state === 'paused'} />
      <${Button} onClick=${pause}>${state === 'paused' ? t.journal.goOn : t.journal.pause}<//><${Button} kind="main" icon="stop" onClick=${() => recorder.current?.stop()}>${t.journal.stop}<//></div>`;
  }
  if (state === 'sending') return html`<div class="voice" role="status"><label>${isLost ? t.journal.uploadLost : t.journal.uploading}<progress max="1" value=${share}></progress></label></div>`;
  return html`
    ${kept.map((one) => html`<${Kept} key=${one.id} of=${one} send=${() => workOn(one, async () => send(one, await wholeOf(one)))} drop=${() => workOn(one, () => dropRecording(one.id))} />`)}
    <div class="row middle voice">
      ${isSecureContext && navigator.mediaDevices ? html`<${Button} icon="mic" onClick=${record}>${t.journal.record}<//>` : html`<span class="soft grow">${t.journal.needsTls}</span>`}
      <input type="file" accept="image/*" hidden ref=${picker} onChange=${picture} /><${Button} icon="plus" onClick=${() => picker.current?.click()}>${t.journal.picture}<//></div>`;
}

/** One that was not sent. @param {{of: Recording, send: () => void, drop: () => void}} props */
const Kept = ({ of, send, drop }) => html`
  <div class="card" role="status"><p>${t.journal.kept(of.type === 'audio', momentName(of.at))}</p>
    <div class="row middle"><${Button} kind="main" onClick=${send}>${t.journal.sendKept}<//><${Confirm} label=${t.journal.dropKept} icon="trash" act=${drop} why=${t.journal.dropWhy} name=${t.journal.dropNow} /></div></div>`;

/** @param {Recording['type']} type @param {string} name @param {string} mime @param {string} at @returns {Recording} */
const newRecording = (type, name, mime, at) => ({ id: `${Date.now()}-${Math.random()}`, type, name, mime, at });

/** Records until it is stopped, and keeps each second as it comes. @param {MediaRecorder} made @param {string} id @param {() => void} onStart @returns {Promise<Blob>} */
async function recorded(made, id, onStart) {
  const pieces = /** @type {Blob[]} */ ([]);
  let keeping = Promise.resolve();
  made.addEventListener('dataavailable', ({ data }) => {
    pieces.push(data);
    keeping = keeping.then(async () => { await keepPiece(id, data); }).catch(toastProblem);
  });
  await new Promise((resolve) => {
    made.addEventListener('stop', resolve);
    made.start(1_000);
    onStart();
  });
  made.stream.getTracks().forEach((one) => one.stop());
  await keeping;
  return new Blob(pieces, { type: made.mimeType });
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
