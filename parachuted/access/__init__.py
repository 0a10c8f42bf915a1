"""Access: one policy for everyone.

What a key, a module or a run may read, write and hear is a value, and every door asks it.
"""
