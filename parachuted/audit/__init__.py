"""Audit: what was done; the chained log, its writer, reader and verification."""
