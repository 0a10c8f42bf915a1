#!/usr/bin/env bash
# Guess: reading the same text twice with gray-matter gives the same answer twice: the same error for bad
# YAML, and a fresh object for good.
# Seen: called without options it keeps every result by its text, and hands out the very object. Bad front
# matter raises the first time only: the second time it is a note with no data and no error. Tags added to
# what one caller got are in what the next one gets. With any options, even {}, there is no cache.
# Why it matters: a page or a tool that tries again after an error is told that all is well, and then
# writes the note back without its front matter's fields; one reader's draft changes leak into others.
source "$(dirname "$0")/support/common.sh"
node_packages gray-matter@4.0.3

cat >"$work/node/run.mjs" <<'X'
import matter from 'gray-matter';
const read = (text, ...options) => {
  try { const note = matter(text, ...options); return 'data ' + JSON.stringify(note.data); }
  catch (error) { return 'error ' + error.name; }
};
const bad = '---\ntags: [work\n---\ntext\n', good = '---\ntags: [work]\n---\ntext\n';
console.log('bad, first:', read(bad));
console.log('bad, second:', read(bad));
console.log('bad, with {}:', read(bad, {}));
matter(good).data.tags.push('draft');
console.log('good, after another caller pushed a tag:', read(good));
console.log('good, with {}:', read(good, {}));
X
cd "$work/node"
node run.mjs | tee out
cat >expected <<'X'
bad, first: error YAMLException
bad, second: data {}
bad, with {}: error YAMLException
good, after another caller pushed a tag: data {"tags":["work","draft"]}
good, with {}: data {"tags":["work"]}
X
diff expected out || changed "see the lines above"
