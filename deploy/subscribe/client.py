"""A subscriber of ticdc-dump's grpc: sink, to copy and change (deploy/SUBSCRIBE.md).

    python3 client.py 127.0.0.1:8310 orders search

The package ticdc-dump has the stubs; those of other languages are generated from proto/. With a token, add
`metadata=(("authorization", "Bearer …"),)` to each call. Over a network, use `grpc.secure_channel`.
"""

import sys

import grpc

from ticdc_dump.v1 import control_pb2 as pb
from ticdc_dump.v1 import control_pb2_grpc

INSERT, DELETE = 1, 3


def apply(table, rows):
    """Yours. `table.columns` are those of the images."""
    for op, commit_tso, before, after in rows:
        sys.stdout.write(f"{table.schema}.{table.table} {op} {commit_tso} {before} {after}\n")


def follow(address, changefeed, subscriber):
    feed, tables = pb.Changefeed(id=changefeed), {}
    with grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)]) as channel:
        sidecar = control_pb2_grpc.ControlStub(channel)
        for delivery in sidecar.Subscribe(pb.SubscribeRequest(changefeed=feed, subscriber=subscriber)):
            tables.update((table.id, table) for table in delivery.tables)
            for batch in delivery.rows:
                apply(tables[batch.table], rows(batch))
            if delivery.HasField("resolved"):
                sidecar.Acknowledge(pb.AcknowledgeRequest(changefeed=feed, subscriber=subscriber, seq=delivery.seq))


def rows(batch):
    """(op, commit_tso, before, after) of each row; an image is a tuple of texts in the order of the table's columns, or None."""
    befores, afters = images(batch.before), images(batch.after)
    for op, commit_tso in zip(batch.ops, batch.commit_tsos, strict=True):
        yield op, commit_tso, None if op == INSERT else next(befores), None if op == DELETE else next(afters)


def images(columns):
    """A batch has its values by column."""
    texts = [list(column.values) for column in columns]
    for values, column in zip(texts, columns, strict=True):
        for at in column.nulls:
            values[at] = None
    return zip(*texts, strict=True)


if __name__ == "__main__":
    follow(*sys.argv[1:])
