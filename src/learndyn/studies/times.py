"""How long the preset `paper` of each study takes, where known.

The numbers are from the notes beside the kept results. The preset `quick` of every study takes less
than a minute on two cores.
"""

from typing import NamedTuple


class Time(NamedTuple):
    """Minutes on a machine, measured or estimated."""

    minutes: float
    machine: str
    measured: bool = False

    def __str__(self) -> str:
        how = "measured" if self.measured else "estimated"
        return f"about {self.minutes:g} min on {self.machine} ({how})"


ONE, TWO, MANY = "one core", "two cores", "16 cores"
PAPER = {
    **{
        f"bocchi2026escape/{name}": Time(minutes, ONE)
        for minutes, names in {
            1: ("escape", "fig3", "fig4", "landscape", "phases", "stationary_points", "tail"),
            2: ("jitter", "student_overlaps"),
            8: ("fig2",),
            20: ("fig1",),
        }.items()
        for name in names
    },
    "curvature2020linear/fig3": Time(70, ONE),
    "hiratani2022perturbation/fig2": Time(5, MANY, measured=True),
    "hiratani2022perturbation/fig3": Time(9, MANY, measured=True),
    "hiratani2022perturbation/figS5": Time(5, "a GPU"),
    "worschech2024scaling/fig6": Time(110, ONE),
    "zhu2024catapults/fig4_5": Time(1, TWO, measured=True),
    "zhu2024catapults/fig4_6": Time(1, ONE, measured=True),
    "zhu2024catapults/fig4_8": Time(120, TWO),
    "zhu2024catapults/fig4_9": Time(60, TWO),
    "zhu2024catapults/fig4_10": Time(60, TWO),
    "zhu2024catapults/fig4_11": Time(120, TWO),
    "zhu2024catapults/figC_14": Time(75, TWO),
    "zhu2024catapults/figC_18": Time(60, TWO),
    "zhu2024catapults/figC_22": Time(25, TWO),
    "zhu2024catapults/schedule_or_noise": Time(180, TWO),
    "zhu2024linearity/equations": Time(0.1, ONE, measured=True),
    "zhu2024quadratic/fig3_1": Time(4, TWO),
    "zhu2024quadratic/fig3_3": Time(0.8, ONE, measured=True),
    "zhu2024quadratic/fig3_4": Time(7300, TWO),
    "zhu2024quadratic/figB_2": Time(55, TWO),
}


def of_paper(study: str) -> str:
    """The time that a study's preset `paper` takes, in words."""
    return str(PAPER.get(study, "not measured"))
