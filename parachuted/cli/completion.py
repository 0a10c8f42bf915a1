"""Completion: the words of the command, for the Tab key of a shell."""

from __future__ import annotations

import sys
from argparse import Namespace

import shtab

from parachuted.cli.commands import argument, command
from parachuted.cli.parser import make_parser

_ABOUT = """\
Print what makes your shell complete parachute's commands with the Tab key. Once:
  bash   parachute completion bash > ~/.local/share/bash-completion/completions/parachute
  zsh    parachute completion zsh > ~/.zfunc/_parachute, with `fpath+=~/.zfunc` before compinit in ~/.zshrc
  fish   parachute completion fish > ~/.config/fish/completions/parachute.fish
Make that folder first where there is none (`mkdir -p`), and open a new terminal afterwards.
"""  # noqa: E501


@command(
    "completion",
    "words completed by your shell",
    argument("shell", choices=("bash", "zsh", "fish"), help="bash, zsh or fish"),
    long=_ABOUT,
)
def completion(options: Namespace) -> int:
    """Print the script of a shell."""
    sys.stdout.write(shtab.complete(make_parser(), options.shell) + "\n")
    return 0
