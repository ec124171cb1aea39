"""What an operator edits and where perdix keeps its state.

Belongs here: the home folder, the stream-job file, and the loading of YAML with places and fixes in its errors.
Does not belong here: anything that reads metrics, models or the network.
"""
