"""A treed Gaussian process as a model that any tempered sampler can run.

`step` leaves prior x likelihood^k invariant, `energy` is the log likelihood, and the prior at k = 0 can be
drawn exactly. The functions are compiled; the state carries data and settings.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numba import types
from numpy.typing import ArrayLike, NDArray

from tempering.errors import InputError
from tempering.models.treed_gp import layout as at
from tempering.models.treed_gp.change_swap import change, swap_or_rotate
from tempering.models.treed_gp.compiled import address_of, called, compiled, generator_at, sealed
from tempering.models.treed_gp.correlation import LANES
from tempering.models.treed_gp.factor import work_length
from tempering.models.treed_gp.grow_prune import grow, prune
from tempering.models.treed_gp.hierarchy import update_shared
from tempering.models.treed_gp.layout import State
from tempering.models.treed_gp.leaf import log_likelihood
from tempering.models.treed_gp.leaf_moves import update_leaf
from tempering.models.treed_gp.records import load_record, record, record_size, row_of_rules
from tempering.models.treed_gp.reference import draw_below_tree, fill_reference, sample_reference
from tempering.models.treed_gp.settings import (
    LEAVES,
    Prior,
    Proposals,
    one_of,
    pack_integers,
    pack_reals,
    smallest_leaf,
)
from tempering.models.treed_gp.starting_tree import StartingTree
from tempering.models.treed_gp.state_type import STATE, state_of_row
from tempering.models.treed_gp.system import kept_width
from tempering.models.treed_gp.training import TrainingData, prepare, with_classes
from tempering.models.treed_gp.tree import log_tree_prior

if TYPE_CHECKING:
    from tempering.models.treed_gp.seams import Seams

_MOVE = types.void(types.intp, STATE, types.float64)


@sealed(_MOVE)
def move_by_growing(rng, state, k):  # type: ignore[no-untyped-def]
    """Grow, sealed."""
    grow(generator_at(rng), state, k)


@sealed(_MOVE)
def move_by_pruning(rng, state, k):  # type: ignore[no-untyped-def]
    """Prune, sealed."""
    prune(generator_at(rng), state, k)


@sealed(_MOVE)
def move_by_change(rng, state, k):  # type: ignore[no-untyped-def]
    """Change, sealed."""
    change(generator_at(rng), state, k)


@sealed(_MOVE)
def move_by_swap(rng, state, k):  # type: ignore[no-untyped-def]
    """Swap or rotate, sealed."""
    swap_or_rotate(generator_at(rng), state, k)


@sealed(types.void(types.intp, STATE, types.int64, types.float64))
def move_leaf(rng, state, node, k):  # type: ignore[no-untyped-def]
    """Move one leaf, sealed."""
    update_leaf(generator_at(rng), state, node, k)


@sealed(types.void(types.intp, STATE))
def move_shared(rng, state):  # type: ignore[no-untyped-def]
    """Move what the leaves share, sealed."""
    update_shared(generator_at(rng), state)


@compiled
def move_tree(rng: np.random.Generator, state: State, k: float) -> None:
    """Propose one change of the tree."""
    u, address = rng.random(), address_of(rng)
    if u < state.real[at.P_GROW]:
        move_by_growing(address, state, k)
    elif u < state.real[at.P_GROW] + state.real[at.P_PRUNE]:
        move_by_pruning(address, state, k)
    elif u < state.real[at.P_GROW] + state.real[at.P_PRUNE] + state.real[at.P_CHANGE]:
        move_by_change(address, state, k)
    else:
        move_by_swap(address, state, k)


@compiled
def run_round(rng: np.random.Generator, state: State, k: float) -> None:
    """Run one round at inverse temperature k, in place: tree moves, then all leaves, then the rest."""
    expected, address = state.real[at.P_TREE], address_of(rng)
    n_moves = int(expected) + (1 if rng.random() < expected - int(expected) else 0)
    for _ in range(n_moves):
        move_tree(rng, state, k)
    for i in range(state.meta[at.N_LEAVES]):
        move_leaf(address, state, state.lists[0, i], k)
    move_shared(address, state)


@compiled
def begin_round(state: State, k: float) -> None:
    """Forget what the last round counted."""
    state.counters[:] = 0
    state.log_ratio[2] = k


@compiled
def is_prior(state: State, k: float) -> bool:
    """Say whether the distribution at k is the prior itself, and can be drawn."""
    within = state.order.shape[0] <= state.integer[at.MAX_ROWS]
    return bool(k == 0.0 and state.integer[at.TEMPER_TREE] == 0 and within)


@compiled
def end_round(rng: np.random.Generator, state: State) -> None:
    """Draw where cuts lie between two inputs, of which the data say nothing."""
    for i in range(state.meta[at.N_INTERNAL]):
        state.leaf[state.lists[1, i], at.PLACE] = rng.random()


@called
def step(rng: np.random.Generator, state: State, k: float) -> State:
    """Run one round at inverse temperature k, in place, and return the state.

    At k = 0 a draw from the prior itself takes the place of the round, where that is what k = 0 is.
    """
    begin_round(state, k)
    if is_prior(state, k):
        fill_reference(rng, state)
    else:
        run_round(rng, state, k)
    end_round(rng, state)
    return state


@compiled
def energy_of(state: State) -> float:
    """Return what is tempered: the log likelihood (5.4), with the tree prior where that is tempered too."""
    total = 0.0
    for i in range(state.meta[at.N_LEAVES]):
        total += log_likelihood(state, state.lists[0, i])
    if state.integer[at.TEMPER_TREE] != 0:
        total += log_tree_prior(state)
    return total


@called
def energy(state: State) -> float:
    """Return what is tempered, called from Python or by an engine."""
    return energy_of(state)


@dataclass(frozen=True)
class TreedGPModel:
    """Data, prior and leaf model, ready to be sampled.

    Parameters
    ----------
    inputs, response
        Training data, shapes (n, d) and (n,).
    leaf
        ``"constant"``, ``"linear"``, ``"gp"``, or ``"gp_linear"``: a Gaussian process that can jump to its
        limiting linear model.
    temper
        ``"likelihood"``, or ``"likelihood_and_tree"``: then the prior of the tree is raised to k too.
    has_classes
        Whether the response is a class, 0 or 1, whose log-odds the leaves are models of.

    Examples
    --------
    >>> model = TreedGPModel(np.linspace(0, 1, 30)[:, None], np.arange(30.0) % 7, leaf="constant")
    >>> rng = np.random.default_rng(1)
    >>> state = model.initial(rng)
    >>> bool(np.isfinite(model.energy(model.step(rng, state, 0.5))))
    True
    """

    inputs: ArrayLike
    response: ArrayLike
    leaf: str = "gp"
    prior: Prior = field(default_factory=Prior)
    proposals: Proposals = field(default_factory=Proposals)
    temper: str = "likelihood"
    has_classes: bool = False
    data: TrainingData = field(init=False)
    real: NDArray[np.float64] = field(init=False)
    integer: NDArray[np.int64] = field(init=False)

    is_ragged: ClassVar = True  # zeros fill up the records of small trees
    packed: ClassVar = (
        STATE.tables_of,
        state_of_row,
    )  # Numba's lists cannot hold a state, which lives as long as a call

    def __post_init__(self) -> None:
        one_of("leaf", self.leaf, LEAVES)
        one_of("temper", self.temper, ("likelihood", "likelihood_and_tree"))
        data = prepare(self.inputs, self.response)
        if self.has_classes:
            data = with_classes(data)
            check_classes(self.prior, self.temper)
        n_base = base_columns(self.prior, data)
        if self.prior.tree:
            check_size(self.prior, data, n_base)
        integer = pack_integers(
            self.prior,
            self.proposals,
            data,
            n_base=n_base,
            leaf=self.leaf,
            temper_tree=self.temper == "likelihood_and_tree",
            has_classes=self.has_classes,
        )
        real = pack_reals(
            self.prior,
            self.proposals,
            n_mean=int(integer[at.N_MEAN]),
            n_ranges=int(integer[at.N_RANGES]),
            most=min(len(data.x), int(integer[at.MAX_ROWS])) * int(np.max(data.y[:, at.COUNT])),
            has_nugget=self.leaf in ("gp", "gp_linear"),
            has_classes=self.has_classes,
        )
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "integer", integer)
        object.__setattr__(self, "real", real)

    @property
    def step(self) -> Callable[[np.random.Generator, State, float], State]:
        """The function (rng, state, k) that runs one round."""
        if self.has_classes:
            from tempering.models.treed_gp.classes import step_of_classes

            return step_of_classes
        if self.prior.correlation == "single_index" or self.integer[at.SAMPLE_EXPONENT]:
            from tempering.models.treed_gp.shape_moves import step_with_shapes

            return step_with_shapes
        return step

    @property
    def energy(self) -> Callable[[State], float]:
        """The function of a state that returns what is tempered."""
        if self.has_classes:
            from tempering.models.treed_gp.classes import energy_of_classes

            return energy_of_classes
        return energy

    @property
    def record(self) -> Callable[[State], NDArray[np.float64]]:
        """The function of a state that returns it as one row of numbers."""
        if self.has_classes:
            from tempering.models.treed_gp.classes import record_of_classes

            return record_of_classes
        return record

    def allocate(self) -> State:
        """Return an empty state; `sample_reference` or `initial` fills one."""
        return allocate(self.data, self.real, self.integer)

    def initial(self, rng: np.random.Generator) -> State:
        """Return a state drawn from the prior, or one of many small leaves where one leaf would be dear."""
        state = self.allocate()
        if self.is_large:
            self.plant(rng, state)
        else:
            sample_reference(rng, state)
        if self.has_classes:
            from tempering.models.treed_gp.classes import begin_log_odds

            begin_log_odds(rng, state)
        return state

    def plant(self, rng: np.random.Generator, state: State) -> None:
        """Fill a state with a tree of leaves that are small enough; refuse if there is none."""
        load_record(state, row_of_rules(self._starting_rules, self.integer, self.n_shared))
        leaves = state.lists[0, : state.meta[at.N_LEAVES]]
        largest = int(np.max(state.tree[leaves, at.END] - state.tree[leaves, at.START]))
        if largest > self.integer[at.MAX_ROWS]:
            raise InputError(
                f"No tree cuts the inputs into leaves of at most {self.integer[at.MAX_ROWS]} distinct ones: one of "
                f"{largest} cannot be cut so that every column varies on both sides. Pass "
                f"prior=Prior(max_rows={largest}), or base_columns for columns with few values."
            )
        draw_below_tree(rng, state)

    @cached_property
    def known_seams(self) -> dict[bytes, "Seams | None"]:
        """The seams of trees that were asked for, by record; not kept in pickles, since they are found again."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "known_seams"}

    @cached_property
    def _starting_rules(self) -> list[tuple[int, int]]:
        return StartingTree(self.data, self.integer).rules()

    @property
    def n_shared(self) -> int:
        """How many numbers a record begins with that are no node's."""
        return n_shared(self.integer, len(self.data.x))

    @property
    def record_size(self) -> int:
        """How many numbers are recorded of a draw."""
        return record_size(self.integer, self.n_shared)

    @property
    def is_large(self) -> bool:
        """Whether one leaf cannot hold all data: then there is no exact draw of the prior."""
        return len(self.data.x) > int(self.integer[at.MAX_ROWS])

    @property
    def sample_reference(self) -> Callable[[np.random.Generator], State] | None:
        """A function that draws exactly from the distribution at k = 0; None where that is not the whole prior."""
        if self.is_large or self.temper != "likelihood" or self.has_classes:
            return None
        return self._draw_reference

    def _draw_reference(self, rng: np.random.Generator) -> State:
        state: State = sample_reference(rng, self.allocate())
        return state


def n_shared(integer: NDArray[np.int64], n_distinct: int) -> int:
    """Return how many numbers concern all leaves: the hyper-parameters, and the omega of classes."""
    m = int(integer[at.N_MEAN])
    return at.BETA0 + m + m * m + (n_distinct if integer[at.RESPONSE] == at.CLASSES else 0)


def check_classes(prior: Prior, temper: str) -> None:
    """Refuse what a model of classes has not."""
    one_of("coefficients of classes", prior.coefficients, ("hierarchical", "zero_mean", "fixed"))
    one_of("temper of classes", temper, ("likelihood",))


def base_columns(prior: Prior, data: TrainingData) -> int:
    """Return how many of the columns that vary enter mean and correlation; check that splits have a column."""
    most = data.columns[-1] + 1 if prior.base_columns is None else prior.base_columns
    n_base = int(np.sum(data.columns < most))
    if n_base == 0 or prior.first_split > data.columns[-1]:
        raise InputError(
            f"Some column that varies must enter the mean and some must be free for splits, but base_columns = "
            f"{prior.base_columns} and first_split = {prior.first_split} leave the columns {data.columns.tolist()} "
            f"out. Leave them at their defaults."
        )
    return n_base


def check_size(prior: Prior, data: TrainingData, n_base: int) -> None:
    """Compare the number of rows with the smallest leaf."""
    smallest = smallest_leaf(prior, n_base)
    if prior.min_leaf is not None and data.n_rows < smallest:
        raise InputError(
            f"The data must have as many rows as the smallest leaf, {smallest}, but have {data.n_rows}. Lower min_leaf."
        )
    if data.n_rows < smallest:
        warnings.warn(
            f"The {data.n_rows} rows are fewer than the smallest leaf, {smallest}: there is one leaf and "
            f"no tree. "
            "Lower min_leaf if there should be one.",
            UserWarning,
            stacklevel=5,
        )


def allocate(data: TrainingData, real: NDArray[np.float64], integer: NDArray[np.int64]) -> State:
    """Lay out the arrays of a state."""
    m, n_base = int(integer[at.N_MEAN]), int(integer[at.N_BASE])
    n = len(data.x)
    most = min(n, int(integer[at.MAX_ROWS]))
    nodes = 2 * int(integer[at.MAX_LEAVES]) + 1
    width = at.RANGES + 2 * int(integer[at.N_RANGES]) + 4 * m + (m + 1) ** 2
    is_process = integer[at.LINEAR] != at.ALWAYS_LINEAR
    return State(
        tree=np.zeros((nodes, at.TREE_WIDTH), np.int64),
        leaf=np.zeros((nodes, width)),
        order=np.arange(n),
        lists=np.zeros((4, nodes), np.int64),
        meta=np.zeros(4, np.int64),
        shared=np.zeros(n_shared(integer, n)),
        x=data.x,
        y=data.y.copy() if integer[at.RESPONSE] == at.CLASSES else data.y,  # where latent numbers live
        rank=data.rank,
        cuts=data.cuts,
        n_cuts=data.n_cuts,
        real=real,
        integer=integer,
        square=np.empty(work_length(most, m + 1) if is_process else 1),
        panel=np.empty(max(n_base * (n + LANES), data.cuts.shape[1])),
        residual=np.zeros(n),
        small=np.zeros((2 * m + 4, 2 * max(m, n_base) + 1)),
        keep=np.zeros(nodes * width),
        kept=np.empty(n * kept_width(most) if is_process else 1),
        keys=np.zeros((n if is_process else 1, 1 + 2 * int(integer[at.N_RANGES]))),
        marks=np.zeros((n if is_process else 1, 3), np.int64),
        keep_int=np.zeros(nodes * at.TREE_WIDTH + n, np.int64),
        counters=np.zeros((len(at.MOVES), 2), np.int64),
        log_ratio=np.zeros(3),
    )


__all__ = ["TreedGPModel", "allocate", "energy", "step"]
