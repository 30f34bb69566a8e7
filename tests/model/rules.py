"""The rules on which recovery hangs, one method for each: its docstring names the function of the product that keeps it. The steps ask
them; each planted mistake (mistakes.py) replaces one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.model.state import NONE, Files, Manifest, Name, Owner, Position, Record, Segment, floor_of, manifest_at, names_of, read


class Rules:
    """As the product has them, but for those that name gaps.py."""

    # ---- the log --------------------------------------------------------------------------------------------------

    def data_epoch(self, epoch: int) -> int:
        """`sidecar/shared/log/layout.py::data_name`."""
        return epoch

    def schemas_epoch(self, epoch: int) -> int:
        """`sidecar/shared/log/layout.py::schemas_name`."""
        return epoch

    def next_epoch(self, last: int) -> int:
        """`sidecar/adapters/etcd/owner.py::EtcdOwner._try`."""
        return last + 1

    def may_create(self, files: Files, seq: int) -> bool:
        """`storage.create_exclusively`, in `sidecar/shared/log/segment_log.py::FolderLog.commit`."""
        return manifest_at(files, seq) is None

    def follows(self, files: Files, seq: int) -> bool:
        """`sidecar/shared/log/segment_log.py::FolderLog._follows`."""
        return manifest_at(files, seq - 1) is not None if seq else floor_of(files) == 0

    def sees(self, seq: int, floor: int) -> bool:
        """Whether a manifest counts: `sidecar/shared/log/layout.py::Contents.run`."""
        return seq >= floor

    def looks_again(self, seen: tuple[int, ...], before: tuple[int, ...]) -> bool:
        """`sidecar/shared/log/segment_log.py::looked_at`."""
        return seen != before

    def is_lost(self, seq: int, floor: int) -> bool:
        """Of a manifest that is gone: `sidecar/shared/log/segment_log.py::FolderLog._raise_floor`."""
        return seq >= floor

    def sweeps_at_once(self) -> bool:
        """Orphans go before the first commit: `sidecar/shared/log/segment_log.py::FolderLog.recover` does not."""
        return False

    def may_forget(self, owner: Owner) -> bool:
        """Whether files that an earlier owner may name again can go: `sidecar/shared/log/segment_log.py::FolderLog._forget`."""
        return owner.committed

    def acknowledges_first(self) -> bool:
        """Before the manifest: `sidecar/pipeline.py::Pipeline._write` does not."""
        return False

    def resumes_behind(self, last: Manifest | None, acknowledged: int) -> int:
        """The last change that the log has: `sidecar/pipeline.py::attach`."""
        return last.upto if last else 0

    def looks_behind_a_gap(self) -> bool:
        """Where the feed has forgotten what comes next, whether an earlier owner has logged it meanwhile. The product does not look
        (gaps.py)."""
        return True

    # ---- retention ------------------------------------------------------------------------------------------------

    def reaches(self, owner: Owner) -> Iterable[int]:
        """Where windows begin that closed in segments which some sink lacks: `FolderLog.retain`, by `FolderLog._reaches`."""
        return [one.first for one in owner.learned if one.seq > owner.delivered]

    def open_windows(self, owner: Owner) -> Iterable[int]:
        """`sidecar/run/term.py::Term._retain`."""
        return [owner.open_from]

    def previous_windows(self, owner: Owner) -> Iterable[int]:
        """Of the owner before: `FolderLog._previous_open`."""
        return [owner.previous_open]

    def keep_from(self, owner: Owner, needed: Iterable[int]) -> int:
        """`sidecar/shared/log/layout.py::keep_from`."""
        return min([owner.delivered, owner.stop - 1, *(seq for seq in needed if seq != NONE)])

    def notes_first(self) -> bool:
        """The note before the manifests: `sidecar/shared/log/segment_log.py::FolderLog._remove_segments`."""
        return True

    def removed_next(self, gone: Sequence[Manifest]) -> Sequence[Manifest]:
        """Those of one epoch, in any order: `sidecar/shared/log/segment_log.py::FolderLog._remove_segments`."""
        return [one for one in gone if one.epoch == gone[0].epoch]

    # ---- delivery -------------------------------------------------------------------------------------------------

    def report(self, accepted: Sequence[int]) -> int:
        """Of all sinks of a worker: `spark_merge/worker/job.py::SparkJob.position`."""
        return min(accepted)

    def not_to_report(self) -> Sequence[str]:
        """Where a loop is while the record may lack what is accepted: `spark_merge/delivery/loop.py::SinkLoop._deliver` notes it later."""
        return ("again", "resume", "whose_record", "record")

    def reports_first(self) -> bool:
        """Before the sink's record is written: `spark_merge/delivery/sink_record.py::SinkRecord.passed` comes first."""
        return False

    def may_write_record(self, owner: tuple[int, int], there: Record | None) -> bool:
        """`spark_merge/delivery/sink_record.py::SinkRecord._check_owner`, which the model asks with the write, as one step."""
        return there is None or there.owner <= owner

    def may_begin_record(self, owner: tuple[int, int], there: Record | None) -> bool:
        """`spark_merge/delivery/sink_record.py::SinkRecord.begin`. The product writes without a look (gaps.py)."""
        return there is None or there.owner <= owner

    def looks_long_before(self) -> bool:
        """Whether the look and the write of a record are two steps. In the product they are (gaps.py)."""
        return False

    def is_same(self, on_record: Segment, there: Manifest) -> bool:
        """`spark_merge/log/follow.py::check_has`, of what is accepted."""
        return on_record == Segment.of(there)

    def is_begun(self, on_record: Segment, there: Manifest) -> bool:
        """`spark_merge/log/follow.py::check_has`, of what is begun."""
        return on_record == Segment.of(there)

    def is_still_begun(self, begun: Segment, last: Manifest) -> bool:
        """Of the batch that is done again, as it is read. The product compares it when it opens the sink alone (gaps.py)."""
        return begun == Segment.of(last)

    def serves(self, epoch: int, manifests: Sequence[Manifest]) -> bool:
        """`spark_merge/delivery/batches.py::Delivery._check_owner`."""
        return max(one.epoch for one in manifests) <= epoch

    def continues(self, accepted: Segment | tuple[()], manifests: Sequence[Manifest]) -> bool:
        """`spark_merge/log/follow.py::check_follows`."""
        after = accepted.upto if accepted else manifests[0].after
        return [one.after for one in manifests] == [after, *(one.upto for one in manifests[:-1])]

    def redone(self, begun: Segment, accepted: int, limit: int) -> int:
        """How many segments a begun batch has: `spark_merge/delivery/batches.py::Delivery._next`."""
        return begun.seq - accepted

    # ---- sinks ----------------------------------------------------------------------------------------------------

    def records_batch(self, kind: str) -> bool:
        """`spark_merge/port/contract.py::Sink.plan`: a committing sink has its batch on record."""
        return kind == "committing"

    def may_write(self, position: Position, owner: tuple[int, int]) -> bool:
        """In a task's transaction: `spark_merge/sinks/kit/position.py::check_owner`."""
        return position.owner == owner

    def is_done(self, slots: int, task: int) -> bool:
        """Whether a task has its slot: `spark_merge/sinks/memory/target.py::Target.slot`."""
        return slots > task

    def swaps(self, position: Position, before: Position) -> bool:
        """`spark_merge/sinks/kit/position.py::PositionStore.compare_and_swap`."""
        return position == before

    def attempt(self, owner: tuple[int, int]) -> tuple[int, int]:
        """The name of rows that are not shown: `spark_merge/sinks/memory/hidden.py::WriteAside`."""
        return owner


def orphans_of(files: Files, owner: Owner, last: Manifest | None) -> list[Name]:
    """`sidecar/shared/log/layout.py::Contents.orphans`."""
    named = last.files if last else set()
    data = [name for name in names_of(files, "data") if name[2] < owner.epoch and name[1] >= owner.stop - 1 and name not in named]
    return [*below(files, owner.start), *data]


def below(files: Files, seq: int) -> list[Name]:
    """`sidecar/shared/log/layout.py::Contents.below`."""
    return [name for name, _ in files if name[0] in ("manifest", "data", "retained") and name[1] < seq]


def lacks(files: Files, names: Iterable[Name | tuple[()]]) -> bool:
    return any(name and read(files, name) is None for name in names)
