"""The numbers that steer a tuned run, each with the reason for it.

Most were halved and doubled on eight targets of the tuning half (``python -m benchmarks.sweep``, three seeds each,
stored in ``benchmarks/results/sweep.json``). The price of an answer, squared standard error times processor time, is
known to 3 to 5 % there, and no change lowers it by more than 2 %: what is stored lies at or near the lowest price.
"Price" says what it costs to get a number wrong; it was measured with 5,000 iterations of tuning, before 32 chains
were given 2,500 and before draws that stand out were climbed from. The judging half of ``benchmarks/calibration`` has
no say.
"""

# Draws kept of one round for what is learnt from it: with those of two rounds before and of the pilot enough for a
# mixture of 63 components in few dimensions, or a dense covariance in a hundred; the time
# that a round's fits take grows with their number.
DRAWS_OF_A_ROUND = 5_000
# Of these, thinned by weight, so many fit the mixture and as many judge it: its time is most of what learning takes.
DRAWS_OF_A_FIT = 3_000
DRAWS_PER_COORDINATE = 50
# Rounds double in length: the last three hold seven eighths of all draws, and those before were out of equilibrium.
# Price: 1.16 with one, 1.00 with six.
ROUNDS_REMEMBERED = 3
# Blocks of the pilot on a dear density are this part of the tuning, not the usual 32 iterations: at one k chains move
# at least so often, after which Hamiltonian moves have forgotten where they began on a normal distribution.
BLOCKS = 64
LEAST_BLOCK = 8
# The first round's share of the tuning, and so how often it can double. Price: 1.16 at half of it, 1.06 at twice.
FIRST_ROUND = 1 / 16
# Effective draws of the target, for each coordinate, that the normal approximation at the only summit there is has to
# give for a run to begin with it, without heating: of fewer the first fit would know no more. Reasoned.
WORTH_OF_A_COORDINATE = 1.0
# However long the pilot took: what is learnt from it alone puts hot rungs far from where they should be.
LEAST_ROUNDS = 3
# After each round chains stay at the target for this part of its length, by local moves alone, and so many of these
# draws are learnt from. Price: 1.10 without stays, 1.06 with twice as long ones.
STAYING = 0.5
DRAWS_OF_A_STAY = 2_500
# Iterations run along the final path, and forgotten, before draws are kept.
SETTLING = 128

# The safe end of a bare density: a Student distribution, wide enough to meet other modes, with tails that reach
# further still. Its width costs little: the barrier grows with the log of it.
SAFE_FREEDOM = 3
SAFE_REACH_OF_A_MODE = 10.0  # standard deviations of what chains saw around their start, or of one component
SAFE_REACH_OF_ALL = 3.0  # standard deviations of all that is known of the target; price 1.01 at half, 1.12 at twice
# A mixture is fitted to the target, and for shares of it to what lies so far towards the safe end and so far beyond the
# target: it covers tails, and narrow places that chains enter seldom. A funnel shows why both: a little warmth moves
# nearly all of its mass to its mouth, a little cold to its neck (10-d: by 7 in v, whose standard deviation is 3).
# Price: WARMER 1.08 at half and 1.14 at twice, WARM_SHARE 1.18 and 1.09, COLD_SHARE 1.09 and 1.03.
WARMER = 0.5  # over the root of the dimension
WARM_SHARE, COLD_SHARE = 0.2, 0.2

# Share of a Newton step by which a round moves log scales towards the acceptance aimed at: acceptance falls by a
# quarter per unit of a random walk's log scale, and about twice as fast for Hamiltonian moves.
# Price: 1.10 at half, 1.07 at twice.
GAIN = 0.5

# Share of all visits on the safe leg: never less, so that what the mixture does not know is found and counted; and of
# those away from the target never more. Price, as shares of the latter: 1.02 with an eighth, 1.48 with a half.
LEAST_SAFE, MOST_SAFE = 0.25, 0.75
# Times the even share of a leg, before shares are made to add up: no rung is nearly left out.
OCCUPANCIES = (0.7, 1.5)
# Of a rung's proposals, at the most, that are drawn from its source: a mode that the source does not know is left by
# local moves alone. Price: 1.29 at half, 1.06 at all but one in a hundred.
MOST_FRESH = 0.9

# Round trips between the target and the safe end, all chains together, below which a run is gone on with; the error
# of an error bar is then a fifth.
ENOUGH_TRIPS = 24
ENOUGH_TRIPS_IN = 5_000  # iterations of tuning; fewer in the shorter tuning of a dear density

# Evaluations that a round's search for modes may take: one batch of climbs from 128 places, and some hundred climbs by
# themselves. Where a surface has no summits, a funnel's say, the search ends there. Price: 1.11 at half, 1.00 at twice.
CALLS_OF_A_SEARCH = 30_000
# Of a dear density a search may take this share of the calls that the round has made: an eighth of its time, for most
# calls of a search are gradients.
SHARE_OF_A_SEARCH = 1 / 32

# Draws from which modes are looked for, of each round and of the whole run: as many as chains, those that are highest
# above the mixture. A new mode is worth beginning anew if it has so much of the mass, by Laplace's approximation, and
# the mixture at its summit is so many times too low: of a bent mode, which has more summits than one, it is not.
# Reasoned, and tried on two normals of widths 1 and .02 in a box (12 seeds while it was made, 2 after).
N_STRIKING = 32
WORTH_LOOKING = 0.01
LACKING = 10.0
