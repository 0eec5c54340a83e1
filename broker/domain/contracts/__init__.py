"""What the model binds to, and its digest."""
