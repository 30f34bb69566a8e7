"""Rows of tables from TiKV's snapshots, without SQL.

reads   a chunk: where the table's keys are, its rows, and their texts
"""
