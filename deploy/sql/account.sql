-- The sidecar's account. Replace change-me with a password, and write the same password, on one line, to the file that
-- source.password_file of the sidecar's settings names. Grant SELECT on each database that the changefeed replicates, a line for each,
-- and never on all databases: what this account may not read, nobody can read through the sidecar. It needs no DDL, no write to any
-- replicated table, and no administrative right; it ends its own statements, for which TiDB asks no right.

CREATE USER IF NOT EXISTS 'ticdc_dump'@'%' IDENTIFIED BY 'change-me';

GRANT SELECT ON `shop`.* TO 'ticdc_dump'@'%';

GRANT SELECT, INSERT, UPDATE ON changefeed_dump.* TO 'ticdc_dump'@'%';

-- For feed = "push" and feed = "tikv", and where DDLs do not come by the feed (event filters, target-schema): the DDL jobs.
-- GRANT SELECT ON mysql.tidb_ddl_job TO 'ticdc_dump'@'%';
-- GRANT SELECT ON mysql.tidb_ddl_history TO 'ticdc_dump'@'%';

-- For dumps without marks: which cluster this is (TiDB 8.5 and later). For feed = "push" and feed = "tikv": its collation framework.
-- GRANT SELECT ON mysql.tidb TO 'ticdc_dump'@'%';

-- To see what changes rows without a change in the feed (deploy/HOLES.md): the DDL jobs too, and of these tables those that this TiDB has.
-- GRANT SELECT ON mysql.tidb_import_jobs TO 'ticdc_dump'@'%';
-- GRANT SELECT ON mysql.tidb_pitr_id_map TO 'ticdc_dump'@'%';
-- GRANT SELECT ON mysql.tidb_restore_registry TO 'ticdc_dump'@'%';
