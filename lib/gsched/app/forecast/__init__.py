"""The daemon's forecasts of starts: situation, worker process, documents."""
