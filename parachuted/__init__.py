"""parachuted: a daemon that makes a folder of markdown come alive."""

__version__ = "0.1.0"
