"""TiDB over SQL: `source` carries out marks and SELECTs by threads of its own, `read` one chunk, `packets` its rows, `sql` a session and
what its errors mean, `schema`, `indexes`, `infos` what tables there are, `snapshot` TiDB's time, `follow` the tables as DDLs change them.
"""
