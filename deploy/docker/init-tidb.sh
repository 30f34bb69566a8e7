#!/bin/bash
# Waits for TiDB, then makes the watermark table, the sidecar's account and the sample. Repeating it changes nothing.
set -euo pipefail
as_root=(mysql --host=tidb --port=4000 --user=root --batch)

for _ in $(seq 90); do
  "${as_root[@]}" --execute='SELECT 1' > /dev/null 2>&1 && break
  sleep 2
done

"${as_root[@]}" < /sql/changefeed_dump.sql
"${as_root[@]}" < /init/sample.sql
sed "s/change-me/$(cat /run/secrets/tidb-password)/" /sql/account.sql | "${as_root[@]}"
