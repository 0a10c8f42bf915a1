"""Suggestions: changes that were proposed, as files that a person can tick."""
