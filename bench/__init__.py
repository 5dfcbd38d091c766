"""Pillion beside other job queues, in one run. `python -m bench --help`; what is measured and how: README.md."""
