"""Texts: how times are spelled, a stranger's text is shown, secrets covered, JSON bounded."""
