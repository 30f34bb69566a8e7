-- The watermark table. Run it once in the upstream TiDB, as an account that may create databases, before the first dump. The
-- changefeed must let changefeed_dump.changefeed_dump_event through: see deploy/ticdc/.

CREATE DATABASE IF NOT EXISTS changefeed_dump;

CREATE TABLE IF NOT EXISTS changefeed_dump.changefeed_dump_event (
  id BIGINT NOT NULL AUTO_INCREMENT,
  changefeed_id VARCHAR(128) NOT NULL,
  unique_identifier VARCHAR(32) NOT NULL,
  event_type TINYINT NOT NULL,
  create_time INT NOT NULL,
  update_time INT NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY (changefeed_id)
);
