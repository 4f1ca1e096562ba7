"""The pages, one file each, in the order of the navigation. Importing them imports no JAX."""

from learndyn.explorer.pages.base import AbstractPage as AbstractPage
from learndyn.explorer.pages.committee import Committee

PAGES: dict[str, AbstractPage] = {page.name: page for page in (Committee(),)}
