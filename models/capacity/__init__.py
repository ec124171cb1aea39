"""How many records per second a job can take at each scale-out."""
