"""Networks, for students and teachers: functions of weights and inputs, with explicit scalings."""

from learndyn.networks.base import AbstractNetwork as AbstractNetwork
from learndyn.networks.dense.dag import DAG as DAG
from learndyn.networks.dense.dense_net import DenseNet as DenseNet
from learndyn.networks.dense.mlp import MLP as MLP
from learndyn.networks.dense.residual import ResidualMLP as ResidualMLP
from learndyn.networks.images.cnn import CNN as CNN
from learndyn.networks.images.myrtle import Myrtle as Myrtle
from learndyn.networks.images.vit import ViT as ViT
from learndyn.networks.images.wide_resnet import WideResNet as WideResNet
from learndyn.networks.own import Network as Network
from learndyn.networks.parts.layer_initialisation import Aligned as Aligned
from learndyn.networks.parts.layer_initialisation import SmallRandom as SmallRandom
from learndyn.networks.parts.layer_initialisation import Xavier as Xavier
from learndyn.networks.parts.unit_initialisation import (
    AbstractInitialisation as AbstractInitialisation,
)
from learndyn.networks.parts.unit_initialisation import Normal as Normal
from learndyn.networks.parts.unit_initialisation import Orthonormal as Orthonormal
from learndyn.networks.parts.unit_initialisation import Typical as Typical
from learndyn.networks.solvable.committee import Committee as Committee
from learndyn.networks.solvable.committee import CommitteeWeights as CommitteeWeights
from learndyn.networks.solvable.deep_linear import DeepLinear as DeepLinear
from learndyn.networks.solvable.general_quadratic import GeneralQuadratic as GeneralQuadratic
from learndyn.networks.solvable.linear_teacher import LinearTeacher as LinearTeacher
from learndyn.networks.solvable.polynomial import Polynomial as Polynomial
