# Sourced by scripts that watch a folder or run several programs: a folder of their own that goes
# away with every process they started, and the one way to say that something changed.
set -euo pipefail
support=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
started=()
clean() {
  for pid in ${started[@]+"${started[@]}"}; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap clean EXIT

changed() {
  echo "CHANGED: $*"
  exit 1
}

need() {
  for program in "$@"; do
    command -v "$program" >/dev/null || {
      echo "cannot run here: $program is missing"
      exit 2
    }
  done
}

# until_true COMMAND...: tries for 60 seconds.
until_true() {
  for _ in $(seq 300); do
    if "$@"; then return 0; fi
    sleep 0.2
  done
  return 1
}

# watch FOLDER [NAME...]: writes events to $work/events until watch_ends; the names are not descended into.
watch() {
  need python3
  inotify_log >"$work/inotify_log.py"
  : >"$work/events.raw"
  python3 "$work/inotify_log.py" "$@" >"$work/events.raw" &
  watcher=$!
  started+=("$watcher")
  until_true grep -qx ready "$work/events.raw" || changed "the watcher did not start"
}

watch_ends() {
  sleep 0.5
  kill "$watcher"
  wait "$watcher" 2>/dev/null || true
  grep -vx ready "$work/events.raw" >"$work/events" || true
}

# A git that reads no settings of this machine.
use_git() {
  need git
  export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL="$work/gitconfig" GIT_EDITOR=true
  git config --global user.name Ann
  git config --global user.email ann@example.org
  git config --global init.defaultBranch main
  git version
}

# python_packages NAME==VERSION...: a virtual environment whose Python is $python.
python_packages() {
  need python3
  python3 -m venv "$work/venv"
  python="$work/venv/bin/python"
  "$python" -m pip install -q --disable-pip-version-check "$@" 2>"$work/pip.log" || {
    cat "$work/pip.log"
    exit 2
  }
  "$python" --version
  printf '%s\n' "$@"
}

# node_packages NAME@VERSION...: installs them into $work/node, where scripts are to be run.
node_packages() {
  need node npm
  mkdir -p "$work/node"
  npm install --prefix "$work/node" --no-audit --no-fund --ignore-scripts --silent "$@" >"$work/npm.log" 2>&1 || {
    cat "$work/npm.log"
    exit 2
  }
  echo "Node $(node --version)"
  printf '%s\n' "$@"
}

# The program behind `watch`: the standard library alone, so that it needs no install.
inotify_log() {
  cat <<'PYTHON'
"""Print what inotify reports below a folder, a line an event: `NAMES COOKIE PATH`.

Prints `ready` once all folders are watched. The names after the folder are not descended into.
"""

import ctypes
import os
import struct
import sys

EVENTS = {
    0x2: "MODIFY",
    0x4: "ATTRIB",
    0x8: "CLOSE_WRITE",
    0x40: "MOVED_FROM",
    0x80: "MOVED_TO",
    0x100: "CREATE",
    0x200: "DELETE",
    0x40000000: "ISDIR",
}
NEW_NAME = 0x80 | 0x100


def main() -> None:
    root, skipped = sys.argv[1], sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init()
    folders: dict[int, str] = {}
    mask = sum(bit for bit in EVENTS if bit != 0x40000000)

    def watch(folder: str) -> None:
        folders[libc.inotify_add_watch(descriptor, os.fsencode(folder), mask)] = folder
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False) and entry.name not in skipped:
                    watch(entry.path)

    watch(root)
    print("ready", flush=True)
    while True:
        data, at = os.read(descriptor, 1 << 16), 0
        while at < len(data):
            number, bits, cookie, length = struct.unpack_from("iIII", data, at)
            name = os.fsdecode(data[at + 16 : at + 16 + length].rstrip(b"\0"))
            at += 16 + length
            names = [text for bit, text in EVENTS.items() if bits & bit]
            if not names or not name or number not in folders:
                continue
            path = os.path.join(folders[number], name)
            print("|".join(names), cookie, os.path.relpath(path, root), flush=True)
            if bits & 0x40000000 and bits & NEW_NAME and name not in skipped:
                try:
                    watch(path)
                except FileNotFoundError:
                    continue  # it was gone again before it could be watched


main()
PYTHON
}
