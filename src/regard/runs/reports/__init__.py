"""A run's page: what it scored and how it came there."""
