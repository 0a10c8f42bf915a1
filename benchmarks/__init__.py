"""Benchmarks: figures as ratios against a bare reference in the same run.

`python -m benchmarks [NAME ...] [--json FILE]`.
"""
