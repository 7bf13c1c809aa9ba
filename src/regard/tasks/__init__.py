"""What models are trained to do: one file a task, and what all tasks share."""
