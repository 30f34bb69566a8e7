"""Real servers for the tests, each in a folder of its own on free ports: a Kafka broker, an etcd, a MariaDB, a
schema registry.

Every one has the same shape: `with Broker(folder) as broker`, and in between `stop()` (graceful), `kill()` (SIGKILL),
`start()` again over the same data and ports, `freeze()` and `thaw()` (SIGSTOP, SIGCONT).
"""
