"""A real cluster on loopback: Flink, Kafka and Prometheus, a job to scale and a workload for it.

Here: what is started and how, the faults that are injected, and the generator of the workload. Not here: anything that
perdix itself needs. Nothing but tests and benchmarks imports this package.
"""
