"""Raw key-values as a feed: `feed` is the port over any puller, `schemas` the tables by DDL jobs (`jobs`), `suitability`
what they cannot do."""
