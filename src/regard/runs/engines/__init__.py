"""What can write translations in place of the model itself."""
