"""Posteriors with one hump: seconds to a thousand effective draws, beside NumPyro's NUTS.

The models are of posteriordb's kind, small ones and dear ones, with data made up by code. Each sampler runs in a
process of its own that finds nothing compiled; seconds are those of the processor, from the start of the process,
imports included. Ours is the call ``tp.sample(target, until=tp.Until(effective_draws=1_000))``; NUTS has its defaults,
single precision among them, with one chain or four side by side, whichever is sooner. What it draws beyond a thousand
effective draws is taken off its time, and what it lacks is put on. The default call is made after ours in its process.

The posteriors are split in two by a digest of their names: what was changed for their sake was chosen on the tuning
half.
"""
