# SPDX-License-Identifier: Apache-2.0
"""Recordings: files and messages to checked arrays at the joints."""
