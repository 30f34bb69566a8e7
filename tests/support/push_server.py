"""A sidecar's front for TiCDC's own sinks, alone, for senders of other languages: it keeps what comes, and writes each message down.

    python -m tests.support.push_server --folder DIR [--listen 127.0.0.1:0] [--changefeed default/default/cf]

Says `listening HOST:PORT` once it does. What was kept and read is in DIR/messages.jsonl, a line a message: topic is not known to a feed,
so `key` and `value` in hex, and `position`. Ends with its standard input, or by a signal; started again on DIR it continues.

--unread: it reads nothing before a line comes on its standard input. --secure: mutual TLS and a token; DIR/tls has what a sender brings,
and what it must not.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import threading
from datetime import timedelta
from pathlib import Path

import msgspec

from sidecar.feeds.push.messages import LANE, MessageFeed
from sidecar.shared.config import PushSection, Tls
from sidecar.shared.log.storage import open_folder
from sidecar.shared.ticdc.changefeed import ChangefeedName
from tests.support.services.tls import Authority


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--listen", default="127.0.0.1:0")
    parser.add_argument("--changefeed", default="default/default/cf")
    parser.add_argument("--ahead-bytes-max", type=int, default=PushSection().ahead_bytes_max)
    parser.add_argument("--queue-bytes-max", type=int, default=PushSection().queue_bytes_max)
    parser.add_argument("--unread", action="store_true")
    parser.add_argument("--secure", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    written = given.folder / "messages.jsonl"
    lines = [line for line in written.read_text().splitlines(keepends=True) if line.endswith("\n")] if written.exists() else []
    written.write_text("".join(lines))  # without the half of one that a SIGKILL has left
    section = PushSection(
        listen=given.listen, form="messages", ahead_bytes_max=given.ahead_bytes_max, queue_bytes_max=given.queue_bytes_max
    )
    if given.secure:
        section = secured(section, given.folder / "tls")
    reading, ending = threading.Event(), threading.Event()
    if not given.unread:
        reading.set()
    threading.Thread(target=_reported, args=(reading, ending), daemon=True).start()
    feed = MessageFeed(section, open_folder(str(given.folder)), changefeed=ChangefeedName(*given.changefeed.split("/")))
    try:
        feed.seek({LANE: json.loads(lines[-1])["position"] + 1} if lines else {})
        sys.stdout.write(f"listening {given.listen.rpartition(':')[0]}:{feed.port}\n")
        sys.stdout.flush()
        reading.wait()
        with written.open("a") as file:
            while not ending.is_set():
                for message in feed.poll(timeout_s=0.2):
                    key, value = (None if part is None else part.hex() for part in (message.key, message.value))
                    file.write(json.dumps({"position": message.position, "key": key, "value": value}) + "\n")
                file.flush()
    finally:
        feed.close()


def _reported(reading: threading.Event, ending: threading.Event) -> None:
    for _ in sys.stdin:
        reading.set()
    ending.set()
    reading.set()


def secured(section: PushSection, folder: Path) -> PushSection:
    """With mutual TLS and a token. A sender brings test-ca.pem, node.crt, node.key and token; stranger is of another authority
    (other-ca.pem), expired was one of ours."""
    authority, other = Authority(folder), Authority(folder, "other-ca")
    own = authority.sign("sidecar")
    authority.sign("node")
    authority.sign("expired", until=-timedelta(days=1))
    other.sign("stranger")
    for name in ("token", "other-token"):
        (folder / name).write_text(secrets.token_hex(32))
    tls = Tls(ca_file=str(authority.ca_file), cert_file=str(own.cert_file), key_file=str(own.key_file))
    return msgspec.structs.replace(section, tls=tls, token_file=str(folder / "token"))


if __name__ == "__main__":
    main()
