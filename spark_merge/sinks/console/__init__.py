"""The console sink: a line a delivered segment."""
