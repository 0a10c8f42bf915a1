"""Completion: the words of the command, for the Tab key of a shell."""

from __future__ import annotations

import sys
from argparse import Namespace

import shtab

from parachuted.cli.parser import make_parser


def completion(options: Namespace) -> int:
    """`parachute completion SHELL`."""
    sys.stdout.write(shtab.complete(make_parser(), options.shell) + "\n")
    return 0
