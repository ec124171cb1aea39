"""Policies compared on digital twins, as assets: of jobs, of the operators of a dataflow, of containers on hosts."""
