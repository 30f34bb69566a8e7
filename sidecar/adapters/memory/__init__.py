"""The ports' twins in memory: `clock`, `log`, `progress`, `owner`, `puller`, `schemas`. The contract suites run on them and on the real
adapters."""
