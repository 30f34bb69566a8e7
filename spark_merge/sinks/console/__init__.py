"""The console sink: `sink` prints one line for each delivered segment. A segment that is delivered again is printed again."""
