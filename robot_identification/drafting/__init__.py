# SPDX-License-Identifier: Apache-2.0
"""Drafts of an experiment file from what recordings and robots show."""
