"""Models of workers' sizes (QEScalor): the assets that train them, tasks on Spark, pictures."""
