"""What is asked of runs that read one text: language models and encoders."""
