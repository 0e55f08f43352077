"""`fettle bench`: what a node's GPUs reach. Torch is imported in the processes that measure alone, one for each GPU."""
