"""The claims of Fig. 3."""
import xarray as xr
from learndyn.studies.claims import Claim
def claims_of(data: xr.Dataset) -> list[Claim]:
    return []
