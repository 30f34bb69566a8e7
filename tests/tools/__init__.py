"""What measures, breaks and plays: each with a command of `make`, beside the tests that it is used by.

bench    ratios to something measured in the same run       peers    beside Debezium and mydumper
rig      the product on real servers, with its disasters    soak     an hour of them: what grows
connect  Kafka Connect's readers of protocol=debezium
fuzz     decoders against bytes of any kind                 hostile  answers that no server should give
"""
