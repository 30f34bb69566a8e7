-- The sidecar's account. Replace the password, and `shop` by each database that the changefeed replicates (or grant SELECT ON *.*).
-- It needs no DDL, no write to any replicated table, and no administrative right.

CREATE USER IF NOT EXISTS 'ticdc_dump'@'%' IDENTIFIED BY 'change-me';

GRANT SELECT ON shop.* TO 'ticdc_dump'@'%';

GRANT SELECT, INSERT, UPDATE ON changefeed_dump.* TO 'ticdc_dump'@'%';
