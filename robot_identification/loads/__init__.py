# SPDX-License-Identifier: Apache-2.0
"""Loads whose parameters are sought or known: payloads, gains of drives by known loads."""
