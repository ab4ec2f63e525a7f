"""Length reward (Kimi k1.5, arXiv 2501.12599, section 2.3.3): within a group, short answers gain
and long ones lose.
"""

from collections.abc import Sequence


def length_rewards(lengths: Sequence[int], is_right: Sequence[bool]) -> list[float]:
    """Return one number in [-0.5, 0.5] per answer of a group, from lengths in tokens.

    Right and wrong ones set the scale together.

    λ = 0.5 − (length − shortest) / (longest − shortest); a right answer gets λ, a wrong one min(0,
    λ): being short earns nothing where it is wrong. All 0 when every answer has the same length.
    """
    shortest = min(lengths)
    longest = max(lengths)
    if shortest == longest:
        return [0.0] * len(lengths)
    scale = [0.5 - (length - shortest) / (longest - shortest) for length in lengths]
    return [
        share if right else min(0.0, share) for share, right in zip(scale, is_right, strict=True)
    ]
