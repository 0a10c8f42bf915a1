"""Routes: the handlers, one file for each noun."""
