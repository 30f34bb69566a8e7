"""A cluster of PD and TiKV stores in this process, over real gRPC, that plays a recording's key-values and fails on command."""
