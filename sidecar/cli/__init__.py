"""The commands: `main` is ticdc-dump, `cdc` the wrapper that passes all other commands on, `dump_commands` what both have.

    environment   set before anything is loaded: entry points import it first
    dump_call     what the commands of a dump have in common: options, the way to the sidecar and back
    dump_options  what options of several commands say;  query_command  dumpquery;  verify_command  dumpverify
    usage         the help, and what is said of wrong usage
    init, check, size, skip, park, holes, tail, maintain, remove, pump, completion     one command each
    replay        replay, and demo: a replay of a recording that it makes
    views, dump_view, history_view, verify_view, init_view, tail_view   what people see of a replay, a dump, the last dumps, a verification,
                  a setup, a table's rows in the log
    timeline_view   the last minutes of a dump as lines of blocks
    fitted        tables that fit the terminal's width
    terminal      where they see it: a view that is redrawn, or lines

What a command does lives elsewhere; only __main__ imports this. A module loads what declares its commands and options; a command's body
imports what it needs.
"""
