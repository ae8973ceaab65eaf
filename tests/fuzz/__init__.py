"""A fuzzer of statements and of records. Seeded: one seed and number always give the same case.

PYTHONPATH=tests python -m fuzz statements --count 50000 --seed 7
PYTHONPATH=tests python -m fuzz records --count 50000 --seed 7
"""
