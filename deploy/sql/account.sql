-- The sidecar's account. Replace the password, and `shop` by each database that the changefeed replicates (or grant SELECT ON *.*).
-- It needs no DDL, no write to any replicated table, and no administrative right.

CREATE USER IF NOT EXISTS 'ticdc_dump'@'%' IDENTIFIED BY 'change-me';

GRANT SELECT ON shop.* TO 'ticdc_dump'@'%';

GRANT SELECT, INSERT, UPDATE ON changefeed_dump.* TO 'ticdc_dump'@'%';

-- For feed = "push" and feed = "tikv" only: the DDL jobs, and which collation framework the cluster has.
-- GRANT SELECT ON mysql.tidb_ddl_job TO 'ticdc_dump'@'%';
-- GRANT SELECT ON mysql.tidb_ddl_history TO 'ticdc_dump'@'%';
-- GRANT SELECT ON mysql.tidb TO 'ticdc_dump'@'%';
