#!/usr/bin/env bash
# Guess: a dataclass of pydantic with defer_build is built at its first use, whoever uses it first; later
# versions have mended what was wrong with that in threads, so threads need no care.
# Seen: while one thread builds the class, the others see it half built: their first call raises
# AttributeError, "no attribute '__pydantic_validator__'" or "'__pydantic_core_schema__'". In 2.12.0 nearly every
# first call from eight threads fails, in 2.14.4 a few of thousands still do, and never without defer_build.
# Why it matters: a daemon that defers building to start faster, and reads manifests in a pool of threads, ends at
# one start in some, and only on the lowest version that it allows can a test see why.
source "$(dirname "$0")/support/common.sh"

cat >"$work/run.py" <<'X'
import sys
import threading
from dataclasses import field

import pydantic
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

sys.setswitchinterval(1e-6)


def failures(deferred: bool) -> int:
    count = 0
    for _ in range(100):

        @dataclass(frozen=True, config=ConfigDict(defer_build=deferred, extra="forbid"))
        class Permissions:
            read: tuple[str, ...] = ()
            limits: dict[str, int] = field(default_factory=dict)

        together = threading.Barrier(8)

        def use() -> None:
            nonlocal count
            together.wait()
            try:
                Permissions(read=("Notes/**",))
            except AttributeError:
                count += 1

        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return count


deferred, built = failures(True), failures(False)
print(f"pydantic {pydantic.VERSION}: deferred {'fails' if deferred else 'does not fail'}, built {'fails' if built else 'does not fail'}")
X
python_packages pydantic==2.12.0
"$python" "$work/run.py" | tee "$work/out"
grep -q "deferred fails, built does not fail" "$work/out" || changed "see the line above"
