"""What profilers told of jobs: summaries that people and agents send, beside the telemetry of the same jobs."""
