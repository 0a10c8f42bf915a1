"""Grants: what an agent is given, what the text it read does to that, and who may give it more. Its parts are imported by their files."""
