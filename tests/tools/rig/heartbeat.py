"""A row with the server's time, written into the binlog by MariaDB itself: `tso.py` makes the time of commit_ts from it.

An event of MariaDB's scheduler writes it, so it beats whether or not a publisher runs, and again after each restart of the
server. The changefeed's filter leaves its schema out.
"""

from __future__ import annotations

from sidecar.shared.model.nouns import TableName

HEARTBEAT_TABLE = TableName("rig_heartbeat", "beat")

EVERY_S = 0.2

SERVER_SETTINGS = {"event-scheduler": "ON"}
"""Of MariaDB: without it nothing beats."""

_BEATS_A_RUN = 5
"""The scheduler's own step is a second."""

STATEMENTS = (
    f"create database {HEARTBEAT_TABLE.schema}",
    f"create table {HEARTBEAT_TABLE} (id int primary key, time_ms bigint not null)",
    f"insert into {HEARTBEAT_TABLE} values (1, 0)",
    f"create event {HEARTBEAT_TABLE.schema}.pace on schedule every {_BEATS_A_RUN * EVERY_S:.0f} second do begin"
    f" declare beats int default 0; while beats < {_BEATS_A_RUN} do"
    f" update {HEARTBEAT_TABLE} set time_ms = floor(unix_timestamp(sysdate(3)) * 1000) where id = 1;"
    f" do sleep({EVERY_S}); set beats = beats + 1; end while; end",
)
