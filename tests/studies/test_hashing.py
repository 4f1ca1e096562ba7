"""The hash of a study changes with what it computes, and not with its words."""

from learndyn.studies import hashing, papers

CODE = """'''What it shows: α → ∞.'''

TITLE = "A title"  # the paper's
PARTS = {"panels": "panel"}
WEAK: dict[str, float] = {"a claim": 0.5}
LIMIT = 3.0


def compute(params, report):
    '''The data.'''
    name = "# no comment, λ"  # a comment, λ
    return name, LIMIT
"""


def test_descriptions_do_not_change_the_hash():
    reworded = CODE.replace("α → ∞", "a limit").replace("A title", "Another").replace("data", "x")
    reworded = reworded.replace("a comment, λ", "why").replace("LIMIT = 3.0\n", "LIMIT  =  3.0\n\n")
    reworded = reworded.replace('"panel"}', '"panel", "seeds": "seed"}')
    reworded = reworded.replace("0.5", "0.6")
    assert hashing._code(reworded) == hashing._code(CODE) != CODE
    assert "no comment, λ" in hashing._code(CODE) and "LIMIT = 3.0" in hashing._code(CODE)


def test_code_changes_the_hash():
    for old, new in (("3.0", "4.0"), ("no comment", "no"), ("return name, ", "return ")):
        assert hashing._code(CODE.replace(old, new)) != hashing._code(CODE)


def test_a_file_without_words_is_its_code():
    assert hashing._code("x = 1\n\ny = 2\n") == "x = 1 y = 2"


def test_the_hash_is_of_all_that_a_study_imports_from_its_folder():
    folder = papers.folder_of("worschech2024scaling")
    package = "learndyn.studies.worschech2024scaling"
    files = hashing._imported(folder, package, "fig3.py", set())
    assert {"fig3.py", "_directions.py", "_linear.py", "_model.py"} == files
