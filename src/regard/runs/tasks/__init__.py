"""What models are trained to do: one file a task."""
