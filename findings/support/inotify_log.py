"""Print what inotify reports below a folder, a line an event: `NAMES COOKIE PATH`.

Usage: inotify_log.py FOLDER [NAME_NOT_WATCHED ...]
Prints `ready` once all folders are watched. Standard library alone, so that a script needs no install to look at events.
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
