"""The commands: `main` is ticdc-dump, `cdc` the wrapper that passes on what is not ours, `dump_commands` what both have.

    environment   settled before anything is loaded: entry points import it first
    dump_call     what the commands of a dump have in common: options, the way to the sidecar and back
    check, views, dump_view   what people see of a preflight, a replay, a dump
    terminal      where they see it: a picture that is redrawn, or lines

What a command does lives elsewhere; nothing imports this but __main__. To declare commands and options little is loaded; a command's
body imports what it needs.
"""
