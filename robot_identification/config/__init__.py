# SPDX-License-Identifier: Apache-2.0
"""The experiment file: what is identified, from which recordings, and how."""
