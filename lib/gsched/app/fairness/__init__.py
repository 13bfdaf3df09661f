"""Whose the GPUs are, and who had them: quotas of tenants, and `gsched fairness`."""
