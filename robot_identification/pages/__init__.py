# SPDX-License-Identifier: Apache-2.0
"""Results as text: tables, the headline and the report."""
