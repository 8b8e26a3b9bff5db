"""What a sweep found: for people at a terminal, as a picture, and for programs."""
