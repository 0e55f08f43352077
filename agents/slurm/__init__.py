"""What a Slurm cluster's own commands tell of its jobs, for the server: prologs and epilogs that were missed are made up for here."""
