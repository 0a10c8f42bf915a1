"""Manifests, discovery, approval and installation of modules."""
