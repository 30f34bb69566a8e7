-- The watermark table, for dumps with marks only. Run it once in the upstream TiDB, as an account that may create databases. The
-- changefeed must let changefeed_dump.changefeed_dump_event through: deploy/FIRST-DAY.md, "Marks".

CREATE DATABASE IF NOT EXISTS changefeed_dump;

CREATE TABLE IF NOT EXISTS changefeed_dump.changefeed_dump_event (
  id BIGINT NOT NULL AUTO_RANDOM COMMENT 'the row, of no meaning',
  changefeed_id VARCHAR(128) NOT NULL COMMENT 'whose dumps mark their windows here',
  unique_identifier VARCHAR(32) NOT NULL COMMENT 'the newest mark: dump id, epoch and number',
  event_type TINYINT NOT NULL COMMENT 'of the newest mark: 1 low, 2 high',
  create_time INT NOT NULL COMMENT 'when the row was made, in Unix seconds',
  update_time INT NOT NULL COMMENT 'when the newest mark was made, in Unix seconds',
  PRIMARY KEY (id),
  UNIQUE KEY (changefeed_id)
);
