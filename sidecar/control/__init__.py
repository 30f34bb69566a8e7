"""What operators ask of a sidecar: the service, and its client. proto/ticdc_dump/v1/control.proto is the contract.

    service        one sidecar's answers;  security  its server: TLS, token, health
    requests       on their way to the one thread that may carry them out
    dump_scope     what a start request means, and everything against it
    status         what a sidecar is doing, as one value;  wire  our words and the wire's
    subscribe      the deliveries of a spool, to subscribers
    client         find the sidecar, follow it to the owner, ask until it answers

It must not know Kafka, the log's files or Spark. The commands are in cli/.
"""
