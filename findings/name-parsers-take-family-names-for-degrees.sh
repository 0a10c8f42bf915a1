#!/usr/bin/env bash
# Guess: parsers that part a person's name know that the last of two words is the family name, so that people can be filed under it.
# Seen: humanparser and humanname take "Ma", a common Chinese family name, for a Master of Arts: Yo-Yo Ma has no family name. For
#   another-name-parser "Do" is a degree of medicine, so that Lena Do has none, and Do Van An is "Van" with that degree. humanname does not
#   know the comma that puts the family name first: "Lee, Min" is then a given name. nameparser of PyPI reads all four as meant.
# Why it matters: a program that merges or sorts notes on people by family name puts these under "" and may join two of them.
#   Compare names whole, and let a person say what the family name is.
source "$(dirname "$0")/support/common.sh"
python_packages nameparser==2.6.0
node_packages humanparser@2.7.0 humanname@0.2.2 another-name-parser@0.1.0

cat >"$work/node/run.cjs" <<'X'
const another = require('another-name-parser');
const humanname = require('humanname');
const humanparser = require('humanparser');

for (const name of process.argv.slice(2)) {
  const parsed = humanparser.parseName(name);
  console.log('humanparser        ', name, '->', [parsed.firstName, parsed.lastName, parsed.suffix ?? '']);
  const split = humanname.parse(name);
  console.log('humanname          ', name, '->', [split.firstName, split.lastName, split.suffix]);
  const other = another(name);
  console.log('another-name-parser', name, '->', [other.first, other.last ?? '', other.suffix ?? '']);
}
X
cat >"$work/run.py" <<'X'
import sys

from nameparser import HumanName

for name in sys.argv[1:]:
    parsed = HumanName(name)
    print("nameparser         ", name, "->", [parsed.first, parsed.last, parsed.suffix])
X
names=("Yo-Yo Ma" "Lena Do" "Do Van An" "Lee, Min Ho")
{ node "$work/node/run.cjs" "${names[@]}" && "$python" "$work/run.py" "${names[@]}"; } | tee "$work/out"
cat >"$work/expected" <<'X'
humanparser         Yo-Yo Ma -> [ 'Yo-Yo', '', 'Ma' ]
humanname           Yo-Yo Ma -> [ 'Yo-Yo', '', 'MA' ]
another-name-parser Yo-Yo Ma -> [ 'Yo-Yo', 'Ma', '' ]
humanparser         Lena Do -> [ 'Lena', 'Do', '' ]
humanname           Lena Do -> [ 'Lena', 'Do', '' ]
another-name-parser Lena Do -> [ 'Lena', '', 'Do' ]
humanparser         Do Van An -> [ 'Do', 'Van An', '' ]
humanname           Do Van An -> [ 'Do', 'Van An', '' ]
another-name-parser Do Van An -> [ 'Van', '', 'Do' ]
humanparser         Lee, Min Ho -> [ 'Min', 'Lee', '' ]
humanname           Lee, Min Ho -> [ 'Lee, Min', 'Ho', '' ]
another-name-parser Lee, Min Ho -> [ 'Min', 'Lee', '' ]
nameparser          Yo-Yo Ma -> ['Yo-Yo', 'Ma', '']
nameparser          Lena Do -> ['Lena', 'Do', '']
nameparser          Do Van An -> ['Do', 'Van An', '']
nameparser          Lee, Min Ho -> ['Min', 'Lee', '']
X
diff "$work/expected" "$work/out" || changed "see the lines above"
