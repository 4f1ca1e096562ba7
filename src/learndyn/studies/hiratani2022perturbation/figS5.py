"""Fig. S5: a network of three convolutions learns CIFAR-10, or small digits.

Three layers of 3 × 3 windows and one dense layer to sigmoid outputs; the loss is ½ |x_K − x*|². The
8192 units before the outputs, of which the caption speaks, are 32 channels of 16 × 16 pixels: one
of the layers has a stride of 2, here the first, since the paper does not say which. A: learning
curves at fixed rates. B: weight decay.

The paper preset has CIFAR-10 in its binary version: the training batches that are there; the record
says how many images. The paper states neither how long it trains nor the convention of its rates;
its rate with weight decay is 2·10⁻³, here it is one of `rates`. The quick preset needs no file: it
has scikit-learn's digits of 8 × 8 pixels, and says so.

Notes: docs/results/hiratani2022perturbation/figS5/notes.md.
"""

import dataclasses

import xarray as xr
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.plotting import panels
from learndyn.studies.claims import Claim, claim
from learndyn.studies.hiratani2022perturbation import _curves, _readings
from learndyn.studies.hiratani2022perturbation._decay import regularised
from learndyn.studies.hiratani2022perturbation._intervals import least_below, surely_above
from learndyn.studies.hiratani2022perturbation._readings import ENDS_BELOW
from learndyn.studies.hiratani2022perturbation._tasks import images
from learndyn.studies.registry import Report

TITLE = "Node perturbation of a convolutional network: curves, weight decay"
DIFFERS = (
    "rates 10⁻³ to 10⁻², decay at 10⁻² instead of the paper's 2·10⁻³; its 8192 neurons are read "
    "as the last convolution's; images and steps are not stated, here 10,000 and 20,000"
)
CHANCE = 0.1
CLAIMS = {
    "learns": claim("the network learns: accuracy on the test set at the end, at the smallest "
                         "rate", "Fig. S5A, Appendix C"),
    "loses": claim("at the largest rate more of the best accuracy is lost at the end than at "
                        "the smallest: difference", "Fig. S5A, Appendix C"),
    "decays": claim(f"with the best of the decays {ENDS_BELOW}",
                         "Fig. S5B, Appendix C"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Params:
    """Settings: `channels` and `stride` of the three convolutions, `rates` of A, `decays` of B.

    `data` is "cifar10" or "digits", of which `rows` are used for training at most (0 for all);
    decays are at the largest rate; every case has `seeds`, the first of which is `key`.
    """

    data: str = "digits"
    rows: int = 500
    channels: int = 4
    stride: tuple[int, ...] = (2, 2, 1)
    batch: int = 50
    rates: tuple[float, ...] = (0.04, 0.2)
    steps: int = 2000
    points: int = 15
    decays: tuple[float, ...] = (1e-3, 3e-3)
    seeds: int = 10
    key: int = 0


PRESETS = {
    "quick": Params(),
    "paper": Params(
        data="cifar10", rows=10_000, channels=32, stride=(2, 1, 1), batch=100,
        rates=(1e-3, 3e-3, 1e-2), steps=20_000, points=40, decays=(1e-5, 1e-4, 1e-3), seeds=5,
    ),
}  # fmt: skip


def compute(params: Params, report: Report) -> xr.Dataset:
    """Both panels."""
    task = images(params.data, params.rows, flat=False)
    net = ld.CNN(
        [params.channels] * 3, 3, task.outputs, "relu", parameterisation="standard", bias=True,
        output="sigmoid", stride=params.stride,
    )  # fmt: skip
    done = _curves.Counted(len(params.rates) + len(params.decays), report)
    options = {"key": params.key, "seeds": params.seeds, "done": done}
    grid, rule = (params.rates, params.steps, params.points), _curves.perturbed(params.batch)
    curves = _curves.at_rates(task, net, rule, *grid, **options)[["test", "accuracy"]]
    plain = curves.isel(rate=[-1]).rename(rate="cure").assign_coords(cure=["neither"])
    rules = regularised(params.rates[-1], params.batch, params.decays, normalised=False)
    del rules["neither"]  # it is the curve at the largest rate
    decayed = _curves.under(rules, "cure", task, net, curves["step"].values, **options)
    decayed = xr.concat([plain, decayed[["test", "accuracy"]]], "cure")
    decayed = decayed.rename(test="decay_test", accuracy="decay_accuracy")
    return xr.merge([curves, decayed], join="exact").assign_attrs(data=task.name)


def draw(data: xr.Dataset) -> Figure:
    """Panels A and B."""
    figure, axes = panels(2, size=(4.8, 3.5))
    looks = {"yscale": "linear", "ylabel": "test accuracy"}
    _curves.draw_family(axes[0], data["accuracy"], "rate", title="A", **looks)
    decays = [str(cure).replace("decay", "η_d =") for cure in data["cure"].values]
    labelled = data["decay_accuracy"].assign_coords(cure=["no decay", *decays[1:]])
    _curves.draw_family(axes[1], labelled, "cure", "{}", black="no decay", title="B", **looks)
    for axis in axes:
        axis.axhline(CHANCE, color="0.6", ls=":")
    figure.suptitle(data.attrs["data"])
    return figure


def check(data: xr.Dataset) -> list[Claim]:
    """It learns; a large rate loses what was learnt; decay holds it."""
    end = data["accuracy"].isel(step=-1)
    lost, test = data["accuracy"].max("step") - end, data["decay_test"]
    return [
        surely_above(CLAIMS["learns"], end.isel(rate=0), 2 * CHANCE),
        surely_above(CLAIMS["loses"], lost.isel(rate=-1) - lost.isel(rate=0), 0.0),
        least_below(CLAIMS["decays"], _readings.decay_gaps(test), 0.0),
    ]
