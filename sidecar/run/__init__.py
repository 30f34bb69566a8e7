"""The process: settings in, parts together, terms of ownership one after another.

    app                standby, term, standby …;  term  one ownership: attach, step, close
    changefeed_watch   the changefeed in etcd, read and watched
    gauge              what the pipeline is doing, as control.status;  metrics
    news               what a person is told of it, a line a piece of news;  logs  how lines are written
    merge_process      Spark as a child

Only here (and in replay/) parts meet. It must not decide anything about data.
"""
