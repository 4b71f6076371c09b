# SPDX-License-Identifier: Apache-2.0
"""Node ``regressor``: rows of the regressor, on request and for live states."""
