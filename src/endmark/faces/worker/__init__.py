"""Workers: what was approved is applied, one job at a time for each target."""
