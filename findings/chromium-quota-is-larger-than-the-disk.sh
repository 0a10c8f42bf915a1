#!/usr/bin/env bash
# Guess: navigator.storage.estimate() tells how much may still be stored, from the size of the disk and what is free on it.
# Seen: on a disk of 100 MB it says 1 GiB, and always usage + 1 GiB; on a large one 10 GiB. The true limit is
#   another, lower one: the Cache API, IndexedDB and the private files stop long before the number, with tens of MB still free.
# Why it matters: "is there room for this vault offline?" cannot be asked; an offline copy or a recording that was begun after
#   a look at the estimate fails halfway. Write in pieces, catch QuotaExceededError at each, keep what is there.
source "$(dirname "$0")/support/common.sh"
source "$support/chromium.sh"
mkdir "$work/disk"
mount -t tmpfs -o size=100m none "$work/disk" 2>/dev/null || {
  echo "cannot run here: mounting a small disk needs root"
  exit 2
}
trap 'umount -l "$work/disk"; clean' EXIT
script <<'JAVASCRIPT'
import fs from 'node:fs';
import { expect, profile, serve } from './rig.mjs';

const site = await serve();
const disk = `${process.env.TMPDIR}/disk`;
const free = () => Math.round((fs.statfsSync(disk).bavail * fs.statfsSync(disk).bsize) / 1e6);
const context = await profile(`${disk}/profile`);
const page = await context.newPage();
await page.goto(site.origin);
console.log('free on the disk:', free(), 'MB');
const outcome = await page.evaluate(async () => {
  const before = await navigator.storage.estimate();
  const cache = await caches.open('notes');
  let megabytes = 0;
  let stop = null;
  for (; megabytes < 200 && !stop; megabytes += 1) {
    await cache.put(`/${megabytes}`, new Response(new Uint8Array(1e6))).catch((error) => { stop = error.name; });
  }
  return { before, after: await navigator.storage.estimate(), megabytes: megabytes - 1, stop };
});
const left = free();
console.log('estimate before:', outcome.before.quota, '| stored:', outcome.megabytes, 'MB, then', outcome.stop);
console.log('estimate after:', outcome.after.quota, 'of which used', outcome.after.usage, '| still free on the disk:', left, 'MB');
await context.close();
site.close();
expect(outcome.before.quota === 2 ** 30, 'the estimate of a small disk is no longer 1 GiB');
expect(outcome.megabytes < 100 && /Quota/.test(outcome.stop), 'storing ends in another way');
expect(outcome.after.quota - outcome.after.usage >= 2 ** 30 - 1, 'the estimate now knows of the limit');
expect(left > 20, 'the disk is filled up now');
JAVASCRIPT
