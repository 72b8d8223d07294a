"""Training on rented machines: types of machines, gcloud commands, their execution.

`machines` lists the types, `host_scripts` has the scripts of a host, `source` packs
this code, `plans` has the gcloud commands as values, `executor` runs them. For Google
Kubernetes Engine `gke_nodes` has the types, `jobset` makes the manifest, and `kubectl`
creates it.
"""
