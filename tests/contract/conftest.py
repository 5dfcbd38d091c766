"""The public contract suite is plain asserts: have pytest explain them."""

import pytest

pytest.register_assert_rewrite("pillion.testing.contract")
