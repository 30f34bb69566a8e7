#!/bin/sh
# The merge worker in Spark's cluster mode on Kubernetes (README.md). Not tested. Nothing restarts the driver's pod when it ends: run this
# from something that does, as a Job with a backoffLimit.
exec spark-submit --master k8s://https://api.example.com:443 --deploy-mode cluster --name ticdc-dump-orders \
  --properties-file kubernetes.conf --conf spark.authenticate=true \
  --conf spark.kubernetes.submission.waitAppCompletion=true \
  --conf spark.kubernetes.authenticate.driver.serviceAccountName=ticdc-dump-spark \
  --conf spark.kubernetes.driver.podTemplateFile=driver.yaml \
  local:///opt/ticdc-dump/venv/lib/python3.11/site-packages/sidecar/__main__.py merge --config /etc/ticdc-dump/run/sidecar.toml
