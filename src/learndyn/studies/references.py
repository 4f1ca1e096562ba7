"""Citations of the papers whose equations or findings this package uses."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Paper:
    """A citation."""

    key: str
    authors: str
    title: str
    year: int
    venue: str

    def bibtex(self) -> str:
        """The citation as a BibTeX entry."""
        fields = {
            "author": self.authors,
            "title": self.title,
            "year": self.year,
            "note": self.venue,
        }
        body = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
        return f"@article{{{self.key},\n{body}\n}}"


PAPERS = {
    paper.key: paper
    for paper in (
        Paper(
            "bocchi2026escape",
            "Bocchi, Dario and Regimbeau, Theotime and Lucibello, Carlo and Saglietti, Luca "
            "and Cammarota, Chiara",
            "Escape dynamics and implicit bias of one-pass SGD in overparameterized quadratic "
            "networks",
            2026,
            "arXiv:2604.03068",
        ),
        Paper(
            "worschech2024scaling",
            "Worschech, Roman and Rosenow, Bernd",
            "Analyzing Neural Scaling Laws in Two-Layer Networks with Power-Law Data Spectra",
            2024,
            "preprint",
        ),
        Paper(
            "saad1995online",
            "Saad, David and Solla, Sara A.",
            "On-line learning in soft committee machines",
            1995,
            "Physical Review E 52, 4225",
        ),
        Paper(
            "biehl1994perceptron",
            "Biehl, Michael and Riegler, Peter",
            "On-line learning with a perceptron",
            1994,
            "Europhysics Letters 28, 525",
        ),
        Paper(
            "biehl1993drifting",
            "Biehl, Michael and Schwarze, Holm",
            "Learning drifting concepts with neural networks",
            1993,
            "Journal of Physics A 26, 2651",
        ),
        Paper(
            "sollich1997finite",
            "Sollich, Peter and Barber, David",
            "On-line learning from finite training sets",
            1997,
            "Europhysics Letters 38, 477",
        ),
        Paper(
            "goldt2019dynamics",
            "Goldt, Sebastian and Advani, Madhu S. and Saxe, Andrew M. and Krzakala, Florent "
            "and Zdeborová, Lenka",
            "Dynamics of stochastic gradient descent for two-layer neural networks in the "
            "teacher-student setup",
            2019,
            "Advances in Neural Information Processing Systems 32",
        ),
        Paper(
            "refinetti2021classifying",
            "Refinetti, Maria and Goldt, Sebastian and Krzakala, Florent and Zdeborová, Lenka",
            "Classifying high-dimensional Gaussian mixtures: Where kernel methods fail and neural "
            "networks succeed",
            2021,
            "Proceedings of Machine Learning Research 139, 8936",
        ),
        Paper(
            "curvature2020linear",
            "Anonymous (under review)",
            "Curvature-corrected learning dynamics in deep linear neural networks",
            2020,
            "review copy",
        ),
        Paper(
            "hiratani2022perturbation",
            "Hiratani, Naoki and Mehta, Yash and Lillicrap, Timothy and Latham, Peter E.",
            "On the stability and scalability of node perturbation learning",
            2022,
            "Advances in Neural Information Processing Systems 35",
        ),
        Paper(
            "jacot2018neural",
            "Jacot, Arthur and Gabriel, Franck and Hongler, Clément",
            "Neural tangent kernel: Convergence and generalization in neural networks",
            2018,
            "Advances in Neural Information Processing Systems 31",
        ),
        Paper(
            "lee2019wide",
            "Lee, Jaehoon and Xiao, Lechao and Schoenholz, Samuel S. and Bahri, Yasaman and "
            "Novak, Roman and Sohl-Dickstein, Jascha and Pennington, Jeffrey",
            "Wide neural networks of any depth evolve as linear models under gradient descent",
            2019,
            "Advances in Neural Information Processing Systems 32",
        ),
        Paper(
            "cohen2021stability",
            "Cohen, Jeremy M. and Kaur, Simran and Li, Yuanzhi and Kolter, J. Zico and Talwalkar, "
            "Ameet",
            "Gradient descent on neural networks typically occurs at the edge of stability",
            2021,
            "International Conference on Learning Representations",
        ),
        Paper(
            "zhu2024linearity",
            "Zhu, Libin",
            "Toward Understanding the Dynamics of Over-parameterized Neural Networks, chapter 2: "
            "transition to linearity of general feedforward networks",
            2024,
            "PhD thesis, University of California San Diego",
        ),
        Paper(
            "zhu2024quadratic",
            "Zhu, Libin",
            "Toward Understanding the Dynamics of Over-parameterized Neural Networks, chapter 3: "
            "quadratic models for understanding the catapult dynamics",
            2024,
            "PhD thesis, University of California San Diego",
        ),
        Paper(
            "zhu2024catapults",
            "Zhu, Libin",
            "Toward Understanding the Dynamics of Over-parameterized Neural Networks, chapter 4: "
            "feature learning of catapult dynamics",
            2024,
            "PhD thesis, University of California San Diego",
        ),
    )
}
