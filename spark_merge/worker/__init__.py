"""The merge worker's process. It must not know what a sink's output is made of.

worker    a thread for each sink, reports, epochs, the end with its parent. Read this first
reading   tasks that read chunks of dumps, for the sidecar;  read_task  such a task;  read_reach  whether it could read;
source_server  what it reads
spark_sql statements on Spark, for who maintains a lake's tables
job       a loop for each sink, and where their tasks run
spark_tasks  tasks on Spark, and when there is one;  session  SESSIONS ARE MADE HERE ONLY
daemon, greeting  Spark's Python workers, and what Spark prints
"""
