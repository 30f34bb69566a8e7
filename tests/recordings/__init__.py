"""Recorded streams of a real cluster, compact: README.md here says what is in them."""
