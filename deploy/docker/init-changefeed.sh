#!/bin/sh
# Waits for TiCDC, then makes the changefeed `orders` unless it is there.
set -eu
server=http://ticdc:8300

for _ in $(seq 90); do
  /cdc cli capture list --server="$server" > /dev/null 2>&1 && break
  sleep 2
done

if ! /cdc cli changefeed query --server="$server" --changefeed-id=orders > /dev/null 2>&1; then
  /cdc cli changefeed create --server="$server" --changefeed-id=orders --config=/init/changefeed.toml --no-confirm \
    --sink-uri='kafka://kafka:9092/orders?protocol=open-protocol&partition-num=3&max-message-bytes=10485760&replication-factor=1'
fi
