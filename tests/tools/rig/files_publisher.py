"""The publisher with files in the place of Kafka, as TiCDC's storage sink writes them (new architecture from v8.5.7 on): a file is written
under another name and renamed, numbers continue after those that are there, `metadata` comes after the files."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from zlib import crc32

from sidecar.shared.model.nouns import TableName
from tests.tools.rig.outbox import Outgoing
from tests.tools.rig.publisher import Publisher, Settings
from tests.tools.rig.tso import ms_of_tso

NUMBER_DIGITS = 20


class FilesPublisher(Publisher):
    def _connect(self, settings: Settings) -> None:
        self._root = Path(settings.files)
        self._rows: defaultdict[TableName, list[bytes]] = defaultdict(list)
        self._versions: dict[TableName, int] = {}
        self._numbers: dict[Path, int] = {}

    def _partitions(self, topic: str) -> int:
        return 1

    def _count_partitions(self) -> None:
        pass

    def _send(self, messages: list[Outgoing]) -> None:
        for _, _, _, value in messages:
            message = json.loads(value)
            if message["type"] == "TIDB_WATERMARK":
                self._put(self._root / "metadata", json.dumps({"checkpoint-ts": message["_tidb"]["watermarkTs"]}).encode())
            elif message["isDdl"]:
                self._flush()
                self._put_schema(TableName(message["database"], message["table"]), message["_tidb"]["commitTs"], message["sql"])
            else:
                self._rows[TableName(message["database"], message["table"])].append(value)

    def _flush(self) -> None:
        """A file for each table that has rows."""
        rows, self._rows = self._rows, defaultdict(list)
        for table, lines in rows.items():
            if table not in self._versions:
                self._put_schema(table, self._tso.last, "")
            day = datetime.fromtimestamp(ms_of_tso(self._tso.last) / 1000, UTC).strftime("%Y-%m-%d")
            folder = self._root / table.schema / table.table / str(self._versions[table]) / day
            number = self._numbers[folder] = self._numbers.get(folder, _last_number(folder)) + 1
            self._put(folder / f"CDC{number:0{NUMBER_DIGITS}d}.json", b"".join(line + b"\r\n" for line in lines))

    def _put_schema(self, table: TableName, version: int, query: str) -> None:
        self._versions[table] = version
        form = {"Table": table.table, "Schema": table.schema, "Version": 1, "TableVersion": version, "Query": query, "Type": 0}
        data = json.dumps(form | {"TableColumns": [], "TableColumnsTotal": 0}).encode()
        folder = self._root / table.schema / table.table if table.table else self._root / table.schema
        self._put(folder / "meta" / f"schema_{version}_{crc32(query.encode()):010d}.json", data)

    def _put(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.tmp")
        temporary.write_bytes(data)
        temporary.rename(path)


def _last_number(folder: Path) -> int:
    return max((int(path.stem.removeprefix("CDC")) for path in folder.glob("CDC*.json")), default=0)
