"""Reference draws for mixtures that posteriordb has without any, by two independent methods.

posteriordb keeps reference draws only where ten chains of NUTS agree, so that its mixtures whose labels can be swapped
have none. Here they are made by tempering, ten independent runs, and checked by a sampler of another kind that shares
no code with it: Gibbs steps on the allocations of the data, and after every sweep a random relabelling, which leaves a
symmetric posterior alone (Frühwirth-Schnatter 2001). All labellings have the same mass, exactly.

Five components have 120 labellings, each of them a mode. ``--sorted`` samples one, whose means are in order, and draws
the labelling of each position at random, which is exact.
"""
