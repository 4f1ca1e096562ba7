"""A loss that spikes: record, find, decide, as docs/spikes.md explains.

    python examples/spikes.py

A network of three hidden layers learns two classes of scikit-learn's digits
(`pip install "learndyn[data]"`) by SGD, at a rate above the critical one and at half of it.
"""

import numpy as np

import learndyn as ld
from learndyn.plotting import legend, panels, style
from learndyn.problems.readers.files import digits

SHARES, STEPS, BATCH, S = (1.6, 0.5), 60, 16, 5


def examples():
    """64 images of sevens and nines, labels −1 and 1, with the mean of r² as the loss."""
    found = digits()
    which = np.flatnonzero(np.isin(found.labels, (7, 9)))[:64]
    x = found.pixels[which].reshape(64, -1).astype(float)
    y = np.where(found.labels[which] == 9, 1.0, -1.0)
    return ld.Dataset((x - x.mean()) / x.std(), y, loss_scale=1.0)


def watch(data, network, start, rate):
    """Trains, watching every step."""
    system = ld.System(data, network, ld.SGD(rate, batch=BATCH))
    begin = ld.start(system, weights=start.weights)
    probes = {"watched": ld.probes.Watched(s=S)}
    return ld.simulate(system, np.arange(STEPS + 1), start=begin, probes=probes)


def tell(share, found):
    """What one would want to know, in words."""
    print(f"η = {share:g} η_crit: {len(found.spikes)} spikes, {found.steps_above} steps above")
    for spike in found.spikes:
        print(
            f"  steps {spike.onset} to {spike.end}, × {spike.rise:.1f}, the kernel falls by "
            f"{spike.kernel_drop:.0%}, {spike.top_share:.0%} in the top {S} eigenspaces"
        )
    match = found.batch_match
    if match.events:
        said = f"{match.rate:.0%} of {match.events} increases of a batch's own loss"
        print(f"  {said} have η > η_crit of that batch; of all steps {match.base:.0%} have")


def draw(axes, share, one, found):
    """Loss and spikes; rates."""
    left, right = axes
    left.plot(one["step"], one["error"], color="C0", label="loss")
    left.plot(one["step"], one["loss_top"], "--", color="C1", label=f"in the top {S} eigenspaces")
    for spike in found.spikes:
        left.axvspan(spike.onset, spike.end, color="C4", alpha=0.3)
    left.set(xlabel="steps", ylabel="mean of r²", yscale="log")
    left.set_title(f"η = {share:g} η_crit")
    right.plot(one["step"], one["critical_rate"], ".", color="C2", label="η_crit of the batch")
    right.axhline(float(one["rate"][0]), color="C1", label="η")
    right.set(xlabel="steps", ylabel="learning rate", yscale="log")
    spike = {"spike": {"color": "C4", "lw": 6, "alpha": 0.3}} if found.spikes else {}
    legend(left, spike)
    legend(right)


@style()
def main():
    """Trains at both rates and returns the figure and what was found."""
    data, network = examples(), ld.MLP([64, 128, 128, 128, 1], "relu")
    start = ld.start(ld.System(data, network, ld.GradientDescent(1.0)), key=0)
    model = ld.Model(network, start.weights)
    critical = float(ld.probes.critical_learning_rate(model, data.x, loss=data.loss))
    figure, axes = panels(4, size=(4.0, 2.5))
    spikes = {}
    for row, share in enumerate(SHARES):
        record = watch(data, network, start, share * critical)
        spikes[share] = ld.analysis.find_catapults(record)
        tell(share, spikes[share])
        draw(axes[2 * row : 2 * row + 2], share, record.isel(run=0), spikes[share])
    return figure, spikes


if __name__ == "__main__":
    main()[0].savefig("spikes.png")
