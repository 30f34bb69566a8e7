"""The process: settings in, parts together, terms of ownership one after another.

    app                standby, term, standby …;  term  one ownership: attach, step, close
    outside            what a term has of its own, connected
    between_terms      what a process keeps of a term for its next one;  takeover  whether a standby could take over
    changefeed_watch   the changefeed in etcd, read and watched;  sightings  holes, until the log has them
    beginning          whether a new log can begin at the present;  leaving  what `ticdc-dump remove` removes
    gauge              what the pipeline is doing, as control.status;  metrics  the same for Prometheus
    auxiliary          services beside the pipeline, whose errors end nothing else
    term_verifications verifications: requested of the merge worker, followed, kept in the history
    verified_holes     the word of a verification that a table lacks no rows any more
    term_repairs       the repairs of a term;  repairing  one of them: corrects differences
    awaited_dumps      the dumps that verifications wait for;  verification_texts  what the history and the log say of a verification
    certifying         certificates of finished dumps;  collecting  one dump's;  certificates  what they say of the sidecar
    followed_log       what certificates read of the log;  hole_watch  the services that watch for holes
    console            the web console of this process
    samples            the status every few seconds;  past  those before this process;  ddls  the last ones
    dump_reports       reports of dumps that are over
    continuous         slices of all tables, one after another;  cycle  which slice is next
    retention          what keeps segments that every sink has, and for how long
    filling            dumps of what is incomplete, without an operator
    completing         the dump that brings a sink the rows that it lacks
    gc_hold            what is read as of a moment of TiDB, and that it stays there
    log_events         which log lines a person reads;  dump_events  of dumps;  hole_events  of holes
    log_event          one of them;  logs  how lines are written
    merge_process      the merge worker as a child;  own_worker  the one of this process

Only here (and in replay/) the parts meet. It must not decide anything about data.
"""
