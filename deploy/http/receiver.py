"""A receiver of ticdc-dump's http: sink, to copy and change: plain Python, rows in SQLite, each once and in order (deploy/HTTP-SINK.md).

    python3 receiver.py --db merged.db [--listen 127.0.0.1:8080] [--token-file FILE] [--cert FILE --key FILE [--ca FILE]]

To try it, from the root of the repository:

    python3 deploy/http/receiver.py --db merged.db &
    curl -i http://127.0.0.1:8080/try                       # 204: no state yet
    # 204: stored. The same request again: 204, stored once
    curl -i http://127.0.0.1:8080/try -H 'Ticdc-Dump-State: {"seq":0,"log":"a","by":"me"}' -d '{"kind":"resolved","seq":0,"upto_ts":"1"}'
    # 409: there is an output already
    curl -i http://127.0.0.1:8080/try -H 'Ticdc-Dump-State: {"seq":1,"log":"a","by":"me"}' -d ''
    sqlite3 merged.db 'SELECT line FROM shown; SELECT * FROM newest; SELECT * FROM state'

To be compared with the source (`dumpverify`), a receiver also answers GET with the header Ticdc-Dump-Read, a JSON object:

    {"seq":41}                                    {"first":1,"last":9000}: the numbers of the first and the last line up to segment 41.
                                                  Numbers rise in the order of the lines
    {"after":0,"upto":9000,"kind":"ddl"}          some lines of this kind with a number above `after` and up to `upto`, in order, each as
                                                  `NUMBER LINE`; nothing when there are no more
    with "kind":"row", "schema" and "table"       of rows, those of one table, in any letter case

Each path is an output of its own. `record` has every line. `shown` has the lines in their order, but those of a segment
that has not ended; `newest` is each row as it is. Schema changes are kept as lines, and `newest` does not follow them.
"""

import argparse
import gzip
import json
import sqlite3
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LINES_AT_ONCE = 20_000  # that are read back

TABLES = """
CREATE TABLE IF NOT EXISTS state (output TEXT PRIMARY KEY, text TEXT NOT NULL, seq INTEGER);
CREATE TABLE IF NOT EXISTS record (n INTEGER PRIMARY KEY, output TEXT NOT NULL, seq INTEGER, kind TEXT NOT NULL, line TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS record_output ON record (output, seq);
CREATE VIEW IF NOT EXISTS shown AS
  SELECT n, output, record.seq AS seq, kind, line FROM record JOIN state USING (output) WHERE record.seq <= state.seq;
CREATE VIEW IF NOT EXISTS newest AS
  SELECT output, line->>'schema' AS "schema", line->>'table' AS "table", line->'key' AS "key", line->'after' AS "row" FROM (
    SELECT *, row_number() OVER (PARTITION BY output, line->>'schema', line->>'table', line->'key' ORDER BY n DESC) AS age
    FROM shown WHERE kind = 'row') WHERE age = 1 AND line->>'op' <> 'delete';
"""


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept
    disable_nagle_algorithm = True
    db, token = "", ""

    def do_GET(self):
        if self.may():
            db, asked = connect(self.db), self.headers.get("Ticdc-Dump-Read")
            found = lines_of(db, self.path, **json.loads(asked)) if asked else state_of(db, self.path)
            db.close()
            self.answer(200 if found or asked else 204, found, "x-ndjson" if asked else "json")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.may():
            return
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        after, state = self.headers.get("Ticdc-Dump-After", ""), self.headers["Ticdc-Dump-State"]
        db = connect(self.db)
        try:
            db.execute("BEGIN IMMEDIATE")  # what it has is looked at and changed in one transaction
            mine = state_of(db, self.path)
            if mine == after:
                db.executemany("INSERT INTO record (output, seq, kind, line) VALUES (?, ?, ?, ?)", records(self.path, body))
                db.execute("INSERT OR REPLACE INTO state VALUES (?, ?, ?)", (self.path, state, json.loads(state)["seq"]))
            db.execute("COMMIT")  # durable before it is told
        finally:
            db.close()
        if mine in (after, state):  # the latter is there already: its answer was lost
            self.answer(204)
        else:
            self.answer(409, json.dumps({"reason": why_not(mine, after)}))

    def may(self):
        if not self.token or self.headers.get("Authorization") == f"Bearer {self.token}":
            return True
        self.answer(401, json.dumps({"reason": "another token is needed"}))
        return False

    def answer(self, status, text="", kind="json"):
        data = text.encode()
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Type", f"application/{kind}")
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def connect(path):
    return sqlite3.connect(path, timeout=60, isolation_level=None)


def state_of(db, output):
    found = db.execute("SELECT text FROM state WHERE output = ?", (output,)).fetchone()
    return found[0] if found else ""


def lines_of(db, output, after=0, upto=None, kind=None, schema=None, table=None, seq=None):
    """What a verification asks for, and no sink: numbers of the lines up to segment `seq`; or some lines, each behind its number."""
    if seq is not None:
        first, last = db.execute("SELECT min(n), max(n) FROM record WHERE output = ? AND seq <= ?", (output, seq)).fetchone()
        return json.dumps({"first": first, "last": last}) + "\n"
    sql = "SELECT n, line FROM record WHERE n > ? AND n <= ? AND +output = ? AND kind = ?"
    values = [after, upto, output, kind]
    if table is not None:
        sql += " AND lower(line->>'schema') = lower(?) AND lower(line->>'table') = lower(?)"
        values += [schema, table]
    return "".join(f"{n} {line}\n" for n, line in db.execute(f"{sql} ORDER BY n LIMIT {LINES_AT_ONCE}", values))


def records(output, body):
    """Whoever wants rows alone passes over every other `kind`, also over those that come with later versions."""
    seq = -1  # a `schema` line has none: it holds from its place on
    for line in body.decode().split("\n"):
        if line:
            record = json.loads(line)
            seq = record.get("seq", seq)
            yield output, seq, record.get("kind", "row"), line


def why_not(mine, after):
    if not mine or not after:
        return "there is no output yet" if after else "there is an output already"
    mine, after = json.loads(mine), json.loads(after)
    if mine["log"] != after["log"]:
        return f"it has the output of log {mine['log']}"
    if mine["by"] != after["by"]:
        return f"its owner is epoch {mine['epoch']}, incarnation {mine['incarnation']}"
    return f"it has segment {mine['seq']}, and of the next one {mine['begun']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", required=True)
    parser.add_argument("--listen", default="127.0.0.1:8080")
    for name in ("token-file", "cert", "key", "ca"):
        parser.add_argument(f"--{name}")
    given = parser.parse_args()
    Receiver.db = given.db
    if given.token_file:
        with open(given.token_file) as file:
            Receiver.token = file.read().strip()
    db = connect(given.db)
    db.execute("PRAGMA journal_mode = WAL")
    db.executescript(TABLES)
    db.close()
    host, _, port = given.listen.rpartition(":")
    server = ThreadingHTTPServer((host, int(port)), Receiver)
    if given.cert:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=given.ca)
        context.verify_mode = ssl.CERT_REQUIRED if given.ca else ssl.CERT_NONE
        context.load_cert_chain(given.cert, given.key)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print(f"listening {server.server_address[0]}:{server.server_address[1]}", flush=True)  # noqa: T201 - a program of its own
    server.serve_forever()


if __name__ == "__main__":
    main()
