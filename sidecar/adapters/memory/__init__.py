"""The ports' twins in memory: `clock`, `log`, `progress` (and the history), `owner`, `puller`, `schemas`. The contract suites run on them
and on the real adapters."""
