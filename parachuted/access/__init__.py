"""Access: one policy for everyone: what a key, a module or a run may read, write and hear."""
