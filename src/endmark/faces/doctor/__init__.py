"""Looking at everything endmark stands on, one family of checks a file, and saying what to do. Nothing is changed."""
