"""deploy/METRICS.md: each metric with its type, its labels and its help text, as `sidecar.run.metrics` makes them."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from sidecar.control.status import SidecarStatus
from sidecar.run.cycle import TableInSink, VerifiedSinks, VerifiedTable
from sidecar.run.gc_hold import GcHoldState
from sidecar.run.metrics import MetricsTally, _StatusCollector
from sidecar.shared.model.nouns import TableName
from sidecar.shared.ticdc.changefeed import ChangefeedName

HEAD = """# Metrics

`make pages` writes this page from the code. How to scrape, and which alerts there are: [MONITOR.md](MONITOR.md#metrics-and-alerts).
`/metrics` has the process's own `process_…`, too.

| metric, with its labels | meaning |
|---|---|
"""


def page() -> str:
    return HEAD + "".join(sorted(map(_row, _ours())))


def _ours() -> Iterator[Metric]:
    """Every metric that an owner, or a standby, can have."""
    name = ChangefeedName("default", "default", "orders")
    verified = VerifiedSinks([VerifiedTable(TableInSink("copy", TableName("shop", "orders")), 1.0, 0)], 86_400.0)
    tally = MetricsTally(log_volume_bytes=(1, 2), verified=verified, against_takeover=(), gc_hold=GcHoldState)
    made = _StatusCollector(lambda: SidecarStatus(name, 1, "host:1"), lambda: tally).collect()
    return (one for one in made if one.name.startswith("ticdc_dump_"))


def _row(metric: Metric) -> str:
    name = metric.name + ("_total" if metric.type == "counter" else "")
    labels = ", ".join(metric._labelnames)  # type: ignore[attr-defined]  # of a family, whatever samples it has
    return f"| `{name}{f'{{{labels}}}' if labels else ''}` | {metric.documentation} |\n"
