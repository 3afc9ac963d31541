"""Does the default call keep its word? Targets with known answers, many seeds, and what the verdict said.

Each run is ``tp.sample(target, rng=seed)``, from the prior where the definition has one and else from one starting
point. For every known quantity (masses of modes, moments) and for the evidence the error is compared with the stated
standard error: z = error / standard error, the share of 95 % intervals that cover, the share of runs called sound, and
those that were called sound though something was off by more than six standard errors.

The targets are split in two by a digest of their names, a rule that nobody can bend: constants of the package are
chosen on the tuning half, and the judging half is what the page shows.
"""
