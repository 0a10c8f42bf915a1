"""Registry: manifests, discovery, approval and installation of modules."""
