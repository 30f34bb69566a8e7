"""What TiCDC decides: which tables, rows, DDLs and topics a changefeed has, by its definition in etcd. Pure.

    changefeed, changefeed_info   the definition, and how it stands in etcd
    table_rules, event_filter, ddl_rules, topics   what is let through, and where it is sent
    scope                         what it carries of the tables, as DDLs change them
    suitability                   every setting that makes a dump impossible or wrong, with the way out

It must not know how etcd is asked (adapters/etcd) nor how Kafka is read (feeds/kafka).
"""
