"""The pages, one file each, in the order of the navigation. Importing them imports no JAX."""

from learndyn.explorer.pages.base import AbstractPage as AbstractPage
from learndyn.explorer.pages.catapult import Catapult
from learndyn.explorer.pages.committee import Committee
from learndyn.explorer.pages.deep_linear import DeepLinear
from learndyn.explorer.pages.log import Log
from learndyn.explorer.pages.node_perturbation import NodePerturbation
from learndyn.explorer.pages.spectra import Spectra
from learndyn.explorer.pages.studies import Studies
from learndyn.explorer.pages.sweeps import Sweeps

_ALL = (Committee, Spectra, DeepLinear, NodePerturbation, Catapult, Studies, Log, Sweeps)
PAGES: dict[str, AbstractPage] = {page.name: page() for page in _ALL}
