"""The frozen behaviour of the product: what commands write and print, as hashes of its columns and texts.

    python -m tests.golden compare [GROUP...]         list what differs; exit code 1 if anything does
    python -m tests.golden write [GROUP...]           renew the hashes in tests/golden/GROUP.json
    python -m tests.golden show GROUP/CASE FOLDER     carry out one case and leave its raw output in FOLDER

`--keep FOLDER` of the first two keeps the raw outputs of all cases. The cases are command lines (`cases.py`),
the signatures of the Python interface and the seeds that seeded bugs need (`in_python.py`). A case whose log,
program or module is not on this computer is skipped, with the reason.

When an intended change alters a hash, `write GROUP` renews it and the commit says why. A change of how a
column is represented, and not of its values, alters no hash: it is undone in `hashes._canonical`. To see what
became different, compare the output of `show` with that of the commit before.
"""
