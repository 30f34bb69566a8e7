"""What operators ask of a sidecar: the service and its client. proto/ticdc_dump/v1/control.proto is the contract.

    service        the answers of one sidecar;  served  what it is made of;  security  its server: TLS, token, health
    asker          who makes a call, for the history
    fields         what each text of a request may be, checked first
    requests       requests on their way to the one thread that can carry them out
    dump_scope     what a start request means, and everything against it;  preview  what a dump would do;  predicate  what `--where` can ask
    holes          dumps of the tables that lack rows, and of nothing else
    repeated       whether a dump is as a request would have it already
    status         what a sidecar is doing, as one value;  wire  our words and the wire's;  answers  exit codes and reasons
    verification_messages  requests and reports of verifications
    exact          dumps after which the sinks are compared and corrected, and their restarts
    hole_texts     what is said of holes that are open in sinks
    judging        which differences can be right, so that no repair may correct them
    subscribe      the deliveries of a spool, to subscribers
    local_call     a call from within the process
    client         finds the sidecar, follows it to the owner, retries until it answers

It must not know Kafka, Spark or the log's files, but for the records of verifications (shared/log/verification.py). cli/ has the commands.
"""
