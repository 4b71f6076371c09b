# SPDX-License-Identifier: Apache-2.0
"""The node ``observer``: predicted and external efforts along the joint states."""
