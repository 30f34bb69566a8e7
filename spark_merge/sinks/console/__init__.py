"""The console sink: `sink` prints one line for each delivered segment."""
