"""Raw key-values as a feed: `feed` is the port over any puller, `schemas` the tables by DDL jobs (`jobs`), `row_filter` the changefeed's
event filters, `suitability` what key-values cannot do, `make` and `checks` what any way of key-values gives to a term and the preflight.
"""
