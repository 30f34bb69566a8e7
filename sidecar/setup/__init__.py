"""`ticdc-dump init`: what PD's etcd or a file says of a changefeed, as a settings file and as SQL for TiDB.

    cluster   the changefeeds there are, and what follows for a sidecar from the one that is chosen
    findings  what the changefeed and the settings lack
    settings  the settings file: each value with where it comes from
    sql       what an administrator runs in TiDB: the watermark table, the account. The one text: deploy/sql is generated from it

It reads only and asks nobody: cli/init.py prompts, and writes the files.
"""
