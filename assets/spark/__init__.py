"""Work of assets on Spark: tasks, checks of rows, and training."""
