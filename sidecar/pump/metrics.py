"""A pump's metrics, under the names that pingcap/tidb-binlog's pump has for them, so that its dashboards and alerts read ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric, UntypedMetricFamily
from prometheus_client.registry import Collector

from sidecar.pump.lost import LostTally
from sidecar.pump.storage import Storage

_BUCKETS = [0.00005 * 2**number for number in range(18)]


class Metrics:
    """`pullers`: PullBinlogs under way."""

    def __init__(self) -> None:
        self.pullers = 0
        self.failed = 0
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        text = "Time of a call, in seconds"
        self._rpc = Histogram("binlog_pump_rpc_duration_seconds", text, ["method", "label"], buckets=_BUCKETS, registry=self._registry)

    def watch(self, storage: Storage, lost: Callable[[], LostTally]) -> None:
        self._registry.register(_Collector(storage, lost, self))

    def rpc(self, method: str, label: str, took_s: float) -> None:
        self.failed += label == "fail"
        self._rpc.labels(method, label).observe(took_s)

    def text(self) -> bytes:
        text: bytes = generate_latest(self._registry)
        return text


class _Collector(Collector):
    def __init__(self, storage: Storage, lost: Callable[[], LostTally], metrics: Metrics) -> None:
        self._storage, self._lost, self._metrics = storage, lost, metrics

    def collect(self) -> Iterator[Metric]:
        storage, lost = self._storage, self._lost()
        yield GaugeMetricFamily("binlog_pump_storage_gc_ts", "Up to when binlogs are collected, ms; 0: never", value=storage.gc_ts >> 18)
        yield GaugeMetricFamily("binlog_pump_storage_max_commit_ts", "Up to when all is sorted, ms", value=storage.max_commit_ts >> 18)
        size = GaugeMetricFamily("binlog_pump_storage_storage_size_bytes", "Of the disk of pump.data_dir", labels=["type"])
        size.add_metric(["capacity"], storage.capacity_bytes())
        size.add_metric(["available"], storage.free_bytes())
        yield size
        yield UntypedMetricFamily(
            "binlog_pump_storage_query_tikv_count", "Queries of old transactions' statuses to TiKV", value=lost.status_queries
        )
        yield UntypedMetricFamily("binlog_pump_loss_binlog_count", "Writes that were refused", value=self._metrics.failed)
        yield GaugeMetricFamily("binlog_pump_pullers", "PullBinlogs under way", value=self._metrics.pullers)
        yield GaugeMetricFamily("binlog_pump_waiting_prewrites", "Prewrites without an end", value=storage.waiting)
        yield UntypedMetricFamily("binlog_pump_unmatched_commits", "Commits omitted: their prewrite is not here", value=storage.unmatched)
        yield UntypedMetricFamily("binlog_pump_tikv_unanswered", "Questions about lost commits without an answer", value=lost.unanswered)
        ends = UntypedMetricFamily("binlog_pump_lost_commits", "Ends that TiKV reported and TiDB did not", labels=["end"])
        ends.add_metric(["committed"], lost.committed)
        ends.add_metric(["rolled_back"], lost.rolled_back)
        yield ends
