"""The record: a labelled trajectory, how it is made, and how it is saved and loaded."""

from learndyn.records.commit import commit as commit
from learndyn.records.commit import commit_of as commit_of
from learndyn.records.commit import tree as tree
from learndyn.records.commit import tree_of as tree_of
from learndyn.records.files import is_elsewhere as is_elsewhere
from learndyn.records.files import load as load
from learndyn.records.files import require_writable as require_writable
from learndyn.records.files import save as save
from learndyn.records.files import whole_file as whole_file
from learndyn.records.joining import join as join
from learndyn.records.joining import part as part
from learndyn.records.matching import differences as differences
from learndyn.records.matching import require_match as require_match
from learndyn.records.matching import require_record as require_record
from learndyn.records.netcdf import check_attributes as check_attributes
from learndyn.records.recording import Outcome as Outcome
from learndyn.records.recording import Recording as Recording
from learndyn.records.recording import Rows as Rows
from learndyn.records.recording import Variable as Variable
from learndyn.records.schema import make_record as make_record
from learndyn.records.schema import provenance as provenance
