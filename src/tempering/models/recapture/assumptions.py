"""What a fit takes for granted, in sentences that an ecologist can hold against the field work."""

from tempering.models.recapture.counts import Counts
from tempering.models.recapture.spaces import ModelSpace

NO_FIDELITY = (
    "Nobody leaves the study area for good (fidelity F = 1). A bird that does looks dead here, which pulls survival "
    "down and is not seen in the intervals"
)
OFFER_OF_FIDELITY = "; fidelity='~ 1' (--fidelity) estimates F"


def assumptions_of(counts: Counts, space: ModelSpace) -> list[str]:
    """List the assumptions of a study, those that its data can and cannot test."""
    said = []
    if counts.live and not counts.dead:
        said.append(
            "Survival is apparent survival: a bird that leaves the study area for good counts as dead. Without "
            "recoveries nothing in these data can tell the two apart."
        )
    elif counts.live and "F" not in space.present:
        said.append(NO_FIDELITY + (OFFER_OF_FIDELITY if counts.moves is None else "") + ".")
    if "F" in space.present:
        said.append("A bird that has left the study area for good may be found dead wherever it is, as the others are.")
    said += [
        "No ring is lost or unread.",
        "Birds are independent, and within a group and age class they are alike"
        + (": neither trap-shy nor trap-happy." if counts.live and "missed" not in counts.stages else "."),
    ]
    if counts.dead:
        said.append("A dead bird is found within the interval of its death, or never.")
    if counts.moves is not None:
        said.append("States are never mistaken; where a bird goes depends on where it is, not on where it was before.")
    if "gamma" in space.present:
        said.append(
            "Birds without a ring are caught as easily as birds with one, in a study area that stays the same. Numbers "
            "are of birds that can be caught at all, with the prior 1 / N."
        )
    if counts.live:
        said.append("Occasions are short beside the intervals between them.")
    return said
