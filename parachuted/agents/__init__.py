"""Agent backends, the model gateway, sandboxes and permission requests."""
