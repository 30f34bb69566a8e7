"""Measurements: `python -m tests.tools.bench` (make bench). Nothing passes or fails by time; each figure has a reference beside it."""
