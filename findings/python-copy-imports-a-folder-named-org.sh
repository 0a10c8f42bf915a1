#!/usr/bin/env bash
# Guess: `import copy` touches the standard library alone; a file org.py beside a script is imported by
# who asks for `org`, and nobody in the standard library does.
# Seen: up to Python 3.11, copy.py tries `from org.python.core import PyStringMap` (for Jython), so an org.py
# or org/ in the folder of the script, or in the working folder with -c, is run by `import copy`, and so by
# dataclasses and all that use it. 3.12 no longer does it.
# Why it matters: org is what people call a folder of Org notes or of an organisation. A hook or a module
# that keeps its helper in org.py has it run at a time nobody meant, and what it raises comes out of
# somebody else's import; 3.11 is the oldest Python that the product allows, so CI on 3.12 does not see it.
source "$(dirname "$0")/support/common.sh"
need python3

cd "$work"
printf 'print("org.py ran")\n' >org.py
python=$(python3 -c 'import sys; print(sys.executable)')
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' | tail -n 1)
echo "Python $version"

plain=$("$python" -c 'import dataclasses; print("done")' | xargs)
safe=$("$python" -P -c 'import dataclasses; print("done")' | xargs)
echo "import dataclasses: $plain"; echo "with -P: $safe"

if [[ $("$python" -c 'import sys; print(sys.version_info >= (3, 12))' | tail -n 1) = True ]]; then
  [[ $plain = "done" ]] || changed "Python $version runs org.py again"
else
  [[ $plain = "org.py ran done" ]] || changed "import dataclasses printed '$plain'"
  [[ $safe = "done" ]] || changed "-P does not help: '$safe'"
fi
