"""The merge worker's process. It must not know what a sink's output is made of.

worker    a thread for each sink, reports, epochs, the end with its parent. Read this first
job       tasks on Spark: SESSIONS ARE MADE HERE ONLY;  daemon, greeting  Spark's Python workers, and what Spark prints
"""
