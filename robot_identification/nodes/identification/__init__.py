# SPDX-License-Identifier: Apache-2.0
"""Node ``identification``: identifies from recordings and beside the running robot."""
