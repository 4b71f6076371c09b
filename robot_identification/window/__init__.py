# SPDX-License-Identifier: Apache-2.0
"""The window: the steps from a robot's file to its exports, as pages in a browser."""
