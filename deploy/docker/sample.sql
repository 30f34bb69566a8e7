-- Rows that are there before the changefeed: what TiCDC will not send, and a dump will.

CREATE DATABASE IF NOT EXISTS shop;

CREATE TABLE IF NOT EXISTS shop.orders (
  id BIGINT NOT NULL PRIMARY KEY,
  customer VARCHAR(64) NOT NULL,
  amount DECIMAL(12, 2) NOT NULL,
  placed DATETIME(3) NOT NULL
);

INSERT IGNORE INTO shop.orders (id, customer, amount, placed)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900)
SELECT i, CONCAT('customer ', i MOD 97), i * 1.25, '2025-01-01 00:00:00' + INTERVAL i MINUTE FROM n;
