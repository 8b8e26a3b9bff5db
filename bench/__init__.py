"""What README's figures come from: `make bench`. Ratios in one run, pairs and medians; never a timed test."""
