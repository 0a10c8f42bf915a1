"""The gateway that every model call passes: it adds credentials and counts cost."""
