"""Estimators: run times from the job history."""
