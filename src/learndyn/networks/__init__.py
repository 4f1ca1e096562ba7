"""Students and teachers: functions of parameters and inputs, with explicit scalings."""

from learndyn.networks.base import AbstractNetwork as AbstractNetwork
from learndyn.networks.cnn import CNN as CNN
from learndyn.networks.committee import Committee as Committee
from learndyn.networks.dag import DAG as DAG
from learndyn.networks.deep_linear import DeepLinear as DeepLinear
from learndyn.networks.dense_net import DenseNet as DenseNet
from learndyn.networks.general_quadratic import GeneralQuadratic as GeneralQuadratic
from learndyn.networks.initialisation import AbstractInitialisation as AbstractInitialisation
from learndyn.networks.initialisation import Normal as Normal
from learndyn.networks.initialisation import Orthonormal as Orthonormal
from learndyn.networks.initialisation import Typical as Typical
from learndyn.networks.layers import Aligned as Aligned
from learndyn.networks.layers import SmallRandom as SmallRandom
from learndyn.networks.layers import Xavier as Xavier
from learndyn.networks.linear_teacher import LinearTeacher as LinearTeacher
from learndyn.networks.mlp import MLP as MLP
from learndyn.networks.model import Model as Model
from learndyn.networks.network import Network as Network
from learndyn.networks.residual import ResidualMLP as ResidualMLP
from learndyn.networks.taps import forward as forward
from learndyn.networks.taps import revisit as revisit
from learndyn.networks.taps import tap as tap
from learndyn.networks.taylor import Taylor as Taylor
from learndyn.networks.taylor import linearise as linearise
from learndyn.networks.taylor import quadratic as quadratic
