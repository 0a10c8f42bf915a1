#!/usr/bin/env bash
# Guess: `uv pip compile --universal` gives each of two lines for one package, whose markers exclude each other, the
# newest version that this line allows.
# Seen: where the two ranges overlap, both get the newest that fits both: the line for all other systems goes down to
# the version that one system is held at, in silence, and `--fork-strategy fewest` or another order change nothing.
# Lifting the lower bound of the free line above the held one gives each its own.
# Why it matters: a lock that is made again to upgrade downgrades a security library for everyone, because one old
# system has no wheel of the new one.
source "$(dirname "$0")/support/common.sh"
python_packages uv==0.13.9
cat >"$work/together.in" <<'X'
packaging>=23 ; sys_platform != "darwin"
packaging>=23,<24 ; sys_platform == "darwin"
X
sed '1s/>=23/>=24/' "$work/together.in" >"$work/apart.in"
for case in together apart; do
    printf '%s:' "$case"
    "$(dirname "$python")/uv" pip compile --universal --quiet --no-header --no-annotate --python-version 3.11 "$work/$case.in" |
        tee "$work/$case.txt" | grep -c "^packaging"
done | tee "$work/out"
printf 'together:1\napart:2\n' | diff - "$work/out" || changed "see the lines above"
grep -x 'packaging==23.*' "$work/together.txt" || changed "the one version is not the older one"
