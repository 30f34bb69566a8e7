"""The ports' twins in memory: `log`, `progress`, `owner`, `puller`, `schemas`. The contract suites run on them and on the real thing."""
