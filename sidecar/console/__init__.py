"""The web console: pages of one sidecar for people, and the commands of a dump as buttons.

    listening     the address, as a socket; a thread that serves on it while the process lives
    connections   bounds of connections, and the certificate of a client
    access        who asks: hosts, origins, sessions, what each may do
    web           the pages' addresses, and what is the same for all of them
    views         what each page shows;  numbers  a number as the status has it;  paging  parts of long lists
    kept          answers that are used again, for a moment and in an outage
    pictures      charts and the interleaving;  words  a button where the service names a command, a dump by its tables
    starting      the form of a new dump, and the request that it means
    commands      what the buttons do
    live          changes of an open page, as server-sent events
    checking      `ticdc-dump check`, run from its page;  row_lookup  `ticdc-dump tail`, for the page of rows
    settings      what is in effect, without secrets
    pages/        templates, the style and the script

All that is shown comes from the control service or a command, as the command line has it. The console must not decide anything about
dumps or data.
"""
