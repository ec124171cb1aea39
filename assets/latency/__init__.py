"""Latency models (Phoebe): the assets that train them, tasks on Spark, pictures."""
