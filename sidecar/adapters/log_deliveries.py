"""`Deliveries` from the merge worker's file in the log's folder, read in the background: asking costs nothing."""

from __future__ import annotations

from threading import Event, Thread

from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]  # botocore ships no types

from sidecar import storage
from sidecar.core.delivered import DELIVERED_NAME, DeliveryReport, report_from_json
from sidecar.core.model import Seq
from sidecar.storage import Folder

READ_EVERY_S = 0.25
"""Short beside a micro-batch, so that the back-off hears of a delivery soon; four small reads a second on S3."""


class LogDeliveries:
    """`report` is what the worker last wrote, None before the first; `trouble` why it cannot be read at the moment."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._end = Event()
        self.report: DeliveryReport | None = None
        self.trouble = ""
        self._thread = Thread(target=self._run, name="deliveries", daemon=True)

    def start(self) -> None:
        self._read()
        self._thread.start()

    def accepted(self) -> Seq | None:
        return self.report.seq if self.report is not None else None

    def close(self) -> None:
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(READ_EVERY_S):
            self._read()

    def _read(self) -> None:
        """A file that cannot be read is shown, not raised: the log's own writes tell about a broken storage, and stop."""
        try:
            data = storage.read_files(self._folder, [DELIVERED_NAME]).get(DELIVERED_NAME)
            self.report = None if data is None else report_from_json(data)
            self.trouble = ""
        except (OSError, BotoCoreError, ValueError) as error:
            self.trouble = f"{self._folder}/{DELIVERED_NAME} cannot be read: {error!r}"
