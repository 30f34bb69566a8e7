"""TiDB-Binlog as a feed, what a drainer does towards PD and pumps: `streams` is the whole, `joining` the rule by which no pump that joins
loses anything, `pump` one pump's stream, `backlog` what waits, `drainer` our own entry, `notify` what pumps call, `gaps` what is lost
without a word.
"""
