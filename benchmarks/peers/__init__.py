"""Ours beside other samplers: the same posteriors, one core each, in one run.

Every (problem, sampler) is a process pinned to one core, which runs seed after seed: the first says what starting up
takes. All get the same independent normal prior and the same likelihood, and start from draws of the prior, or from one
point in each basin where points are given. Peers run as their own documentation recommends (see
`benchmarks/peers/samplers`, a file each), with an effort that makes the sampling last about three seconds, but no less
than their own default. Times are processor seconds. Compilation and start-up are counted apart.

Time to an error: beyond start-up the mean square error falls as c / time, so c is the mean over the seeds of
error^2 x sampling time, and an error e takes start-up + c / e^2, but no less than the shortest run that was made:
tuning and warm-up are paid whatever the error. A run that misses a mode counts with the error it makes. Errors at
equal time are as `python -m benchmarks.suite` has them.

Runs are kept by version (of ours, by a digest of the package; of a peer, by its release and a digest of its file), so
that a full comparison can be filled over several sittings: pilots of all cells first, then the seeds, the samplers
whose pilots promise most before the others. Seeds that take a cell beyond the limit in processor seconds (60 in the
quick comparison, 900 in the full one) are given up; a cell without any run is a row that says so. The quick comparison
has one pilot and one seed a cell and begins no run after 8.5 minutes; cells that it did not come to are left out.
"""
