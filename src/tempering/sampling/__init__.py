"""`tempering.sample`: its options, the plan made of them, tuning, and the run."""
