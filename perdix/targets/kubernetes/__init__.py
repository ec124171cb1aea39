"""Deployments and the like on Kubernetes as a target."""
