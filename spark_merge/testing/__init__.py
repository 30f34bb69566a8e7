"""The contract suites, for sinks of this repository and of other packages. They need pytest.

    sink_port       every sink keeps it             places   an output that is tried, and what a reader of it sees
    dumps_port      a part of it: dumps of any kind story    a log, workers that die at any step, and a reader between them
    position_port   every PositionStore keeps it    histories, true_histories   random logs, and what the slow rule makes of them

A package outside this repository subclasses the suites in its own tests. In its conftest.py, before it imports them, it calls
`pytest.register_assert_rewrite("spark_merge.testing")`, so that a failure shows values.
"""
