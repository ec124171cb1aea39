"""A query of Spark Structured Streaming on one executor of its own, until it is ended.

Run as ``streaming_query.py RECORDS_PER_S UI_PORT AGENT``; ``AGENT`` is the executor's option ``-javaagent:...``.
"""

import os
import sys
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession, functions

SINKS = "spark.metrics.conf.*.sink"


def main(per_s: str, ui_port: str, agent: str) -> None:
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    options = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.port": ui_port,
        "spark.ui.prometheus.enabled": "true",
        "spark.sql.streaming.metricsEnabled": "true",
        "spark.metrics.namespace": "shop.orders",
        f"{SINKS}.prometheusServlet.class": "org.apache.spark.metrics.sink.PrometheusServlet",
        f"{SINKS}.prometheusServlet.path": "/metrics/prometheus",
        f"{SINKS}.jmx.class": "org.apache.spark.metrics.sink.JmxSink",
        "spark.executor.extraJavaOptions": agent,
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
    }
    builder = SparkSession.builder.master("local-cluster[1,2,1024]").appName("orders")
    spark = builder.config(map=options).getOrCreate()
    rows = spark.readStream.format("rate").option("rowsPerSecond", int(per_s)).option("numPartitions", 2).load()
    counted = rows.groupBy((functions.col("value") % 100).alias("key")).count()
    query = counted.writeStream.outputMode("update").format("noop").queryName("orders")
    query.trigger(processingTime="1 second").start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
