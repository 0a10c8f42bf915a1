#!/usr/bin/env bash
# Guess: a formatter of markdown changes spaces and signs, not what a line means; with its plugin for Obsidian it knows a vault's notes.
# Seen: mdformat, with its plugins for GFM, frontmatter and Obsidian, escapes each wikilink and embed (`\[[Other|alias]\]`), so that
#   no link of the note leads anywhere (a third plugin, mdformat-wikilink, keeps them), writes the kind of a callout in capitals, and moves a footnote to the end of the file.
#   pymarkdown's `fix` takes two stars with spaces around them for emphasis and removes the spaces: `2 * 3 * 4` becomes `2 *3* 4`,
#   which is then emphasis indeed, in prose and in the lines of a formula.
# Why it matters: both are offered as hooks before a commit. A vault formatted by the first loses every link at once, which a watcher
#   sees as its owner's edit of every note.
source "$(dirname "$0")/support/common.sh"
python_packages mdformat==1.0.0 mdformat-gfm==1.0.0 mdformat-frontmatter==2.2.0 mdformat-obsidian==0.3.2 pymarkdownlnt==0.9.41

cat >"$work/note.md" <<'X'
# Plan

> [!note]- Kept
> See [[Other Note|alias]].

![[img.png|300]] and [[A#Head]][^1]

[^1]: Text.

It is 2 * 3 * 4 wide.

$$
a * b * c
$$
X
for tool in "mdformat" "pymarkdown fix"; do
  cp "$work/note.md" "$work/formatted.md"
  # shellcheck disable=SC2086  a command and its argument
  "$(dirname "$python")"/$tool "$work/formatted.md" >/dev/null || true
  echo "--- $tool"
  diff "$work/note.md" "$work/formatted.md" | grep '^[<>]' || true
done | tee "$work/out"
cat >"$work/expected" <<'X'
--- mdformat
< > [!note]- Kept
< > See [[Other Note|alias]].
> > [!NOTE]- Kept
> > See \[[Other Note|alias]\].
< ![[img.png|300]] and [[A#Head]][^1]
< 
< [^1]: Text.
> !\[[img.png|300]\] and \[[A#Head]\][^1]
> 
> [^1]: Text.
--- pymarkdown fix
< It is 2 * 3 * 4 wide.
> It is 2 *3* 4 wide.
< a * b * c
> a *b* c
X
diff "$work/expected" "$work/out" || changed "see the lines above"
