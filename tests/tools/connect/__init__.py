"""`make connect`: readers that nobody here wrote read what the Kafka sink writes with `protocol=debezium`, and must end with the source's
rows.

    a recording ─► log ─► Kafka sink, killed ─► topics ─► Kafka Connect: Debezium's JDBC sink  ─► MariaDB, PostgreSQL
                                                                         Iceberg's sink        ─► Iceberg

`history.py` plays a recording into the topics, `readers.py` says what a reader is, `jdbc.py` and `iceberg.py` are those, `kinds.py` lists
them with their limits, `plain.py` is a value whatever keeps it, `judge.py` compares. Everything comes by Maven (`pom.xml`).
"""
