"""What TiCDC decides: which tables, rows, DDLs and topics a changefeed has, by its definition in etcd. Pure.

    changefeed, changefeed_info   the definition: as plain values, out of etcd
    definition_file               the same out of a file, as etcd would have it          changefeed_file   a config, for an output
    table_rules, event_filter, ddl_rules, ddl_text, value_expr, expression   what is let through
    hidden_changes                which differences of a sink follow from what is not let through
    selected_columns              which columns of a table it has             table_routes   under which name it sends one
    topics, dispatch              where it is sent            csv_dialect   how its storage sink writes csv
    large_rows                    what becomes of rows that are larger than a message
    scope                         what it carries of the tables, as DDLs change them
    resumes                       whether a resume skipped a stretch of time
    suitability                   every setting that makes a dump impossible or wrong, with the way out

It must not know how etcd is queried (adapters/etcd) nor how Kafka is read (feeds/kafka).
"""
