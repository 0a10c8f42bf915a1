#!/usr/bin/env bash
# Guess: libraries that replace a file in one step differ in speed alone: a note keeps its mode, one that is a link stays a link, and
# one that is read-only is refused, as open() refuses it.
# Seen: of seven, three (atomicwrites, atomicwriter, fast-write-atomic) give the note another mode, 600 or what the umask says, so
#   that a group or a sync program loses a note at its first save, and a read-only one becomes writable. Those three and boltons put a
#   file in the place of a link, and the note that it led to keeps the old text. safer, write-file-atomic and atomically
#   follow the link and keep the mode. All seven replace a note that its owner made read-only.
# Why it matters: a vault whose folder links to notes elsewhere is taken apart a save at a time, and `chmod a-w` protects
#   nothing. Whichever of these is chosen, resolve the link first, set the mode before the swap, and ask whether one may write.
source "$(dirname "$0")/support/common.sh"
[[ $(id -u) != 0 ]] || need setpriv
python_packages atomicwrites==1.4.1 atomicwriter==0.3.0 boltons==26.2.0 safer==6.1.0
node_packages write-file-atomic@7.0.1 atomically@2.1.1 fast-write-atomic@0.4.0

cat >"$work/save.py" <<'X'
import sys
library, path = sys.argv[1:]
if library == "atomicwrites":
    from atomicwrites import atomic_write as saver
    options = {"overwrite": True}
elif library == "atomicwriter":
    from atomicwriter import AtomicWriter as saver
    options = {"overwrite": True}
elif library == "boltons":
    from boltons.fileutils import atomic_save as saver
    options = {"text_mode": True}
else:
    from safer import open as saver
    options = {"mode": "w", "temp_file": True}
with saver(path, **options) as file:
    getattr(file, "write_text", getattr(file, "write", None))("new")
X
cat >"$work/node/save.mjs" <<'X'
const [library, path] = process.argv.slice(2);
const module = await import(library);
if (library === 'fast-write-atomic') await new Promise((done, failed) => module.default(path, Buffer.from('new'), (error) => (error ? failed(error) : done())));
else await (module.writeFile ?? module.default)(path, 'new');
X
umask 022
# Root may write whatever is read-only: as another user where one can.
as_user() { if [[ $(id -u) == 0 ]]; then setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; else "$@"; fi; }
save() {
  case $1 in
    safer | boltons | atomicwrite*) as_user "$python" "$work/save.py" "$@" ;;
    *) as_user node "$work/node/save.mjs" "$@" ;;
  esac
}
chmod 755 "$work"
for library in atomicwrites atomicwriter boltons safer write-file-atomic atomically fast-write-atomic; do
  vault="$work/vault" && rm -rf "$vault" && mkdir -p "$vault/elsewhere"
  for note in elsewhere/note.md shared.md fixed.md; do echo old >"$vault/$note"; done
  ln -s elsewhere/note.md "$vault/link.md"
  chmod 664 "$vault/shared.md" && chmod 444 "$vault/fixed.md"
  [[ $(id -u) != 0 ]] || chown -R 65534:65534 "$vault"
  for note in link.md shared.md fixed.md; do save "$library" "$vault/$note" 2>"$work/log" || { tail -3 "$work/log"; changed "$library refuses $note"; }; done
  [[ -L $vault/link.md ]] && link=kept || link=replaced
  echo "$library: link $link, its note has $(cat "$vault/elsewhere/note.md"), mode 664 is $(stat -c %a "$vault/shared.md"), read-only has $(cat "$vault/fixed.md") and mode $(stat -c %a "$vault/fixed.md")"
done | tee "$work/out"
cat >"$work/expected" <<'X'
atomicwrites: link replaced, its note has old, mode 664 is 600, read-only has new and mode 600
atomicwriter: link replaced, its note has old, mode 664 is 600, read-only has new and mode 600
boltons: link replaced, its note has old, mode 664 is 664, read-only has new and mode 444
safer: link kept, its note has new, mode 664 is 664, read-only has new and mode 444
write-file-atomic: link kept, its note has new, mode 664 is 664, read-only has new and mode 444
atomically: link kept, its note has new, mode 664 is 664, read-only has new and mode 444
fast-write-atomic: link replaced, its note has old, mode 664 is 644, read-only has new and mode 644
X
diff "$work/expected" "$work/out" || changed "see the lines above"
