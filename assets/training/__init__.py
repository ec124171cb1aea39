"""Training of forecasts and capacities: the assets, tasks on Spark, what is recorded and shown."""
