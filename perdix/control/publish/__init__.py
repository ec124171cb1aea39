"""What perdix publishes for Prometheus: names, and values from the state store."""
