"""The run of a data preparation: blocks, worker processes, Beam, directories."""
