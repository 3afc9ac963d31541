"""The suite of hard targets, ours beside the others: one core each, the same prior and likelihood for everybody.

Runs are made as in the comparison with other samplers: a process for each target and sampler, with an effort that makes
the sampling last about as long for all. What crashes or runs out of time is a row that says so. Where the definition of
a target has no prior, everybody gets the same wide one.

The error is that of the worst mass of a mode, or where there is one mode the root mean square error of the known
quantities in deviations. Time to an error: the mean square error falls as c / time beyond start-up, c is the mean of
error^2 x sampling time. The first table has the ratio of c of the best peer to ours: above 1 we are ahead.

Error at equal time: the equal time of a target is what our runs took, without start-up, and a sampler's error then is
the square root of c / time. There is none where its shortest run takes half as long again, and an error that is far
from the one wanted is not made less by time that was not spent. A sampler whose chains never leave their modes has
the right masses where by luck as many started in each of two equal ones: it is not ranked there.
"""
