#!/bin/sh
# The merge worker on YARN, with an archive of the venv (README.md). Not tested. `submit-yarn.sh client` runs beside the sidecar, with
# HADOOP_CONF_DIR; `submit-yarn.sh cluster` runs the driver in YARN, which starts it again.
main=/opt/ticdc-dump/venv/lib/python3.11/site-packages/sidecar/__main__.py
case "$1" in
client)
  export PYSPARK_PYTHON=./environment/bin/python PYSPARK_DRIVER_PYTHON=/opt/ticdc-dump/venv/bin/python
  exec spark-submit --master yarn --deploy-mode client --driver-memory 2g --archives ticdc-dump.tar.gz#environment \
    "$main" merge --config sidecar.toml
  ;;
cluster)
  # YARN starts the application master before our code runs, so spark.authenticate is given here.
  exec spark-submit --master yarn --deploy-mode cluster --archives ticdc-dump.tar.gz#environment --files sidecar.toml \
    --conf spark.authenticate=true --conf spark.network.crypto.enabled=true --conf spark.io.encryption.enabled=true \
    --conf spark.yarn.appMasterEnv.PYSPARK_PYTHON=./environment/bin/python --conf spark.executorEnv.PYSPARK_PYTHON=./environment/bin/python \
    --conf spark.yarn.maxAppAttempts=1000 --conf spark.yarn.am.attemptFailuresValidityInterval=1h \
    "$main" merge --config sidecar.toml
  ;;
*)
  echo "usage: $0 client|cluster" >&2
  exit 2
  ;;
esac
