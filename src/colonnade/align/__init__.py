"""Private set intersection: the same records in the same order at every party, and nobody sees the others.

`alignment.align` is what each party calls over its channel; `together.align_together` runs all parties in one process.
"""
