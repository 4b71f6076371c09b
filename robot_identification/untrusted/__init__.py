# SPDX-License-Identifier: Apache-2.0
"""
Readers of untrusted files: every file that a user names is read through this package.

A reader of a format checks here what no format checks itself: that a path is that of a regular
file, that a file is not larger than its kind ever is, that YAML is neither nested nor expanded
beyond use, and that compressed data does not grow beyond what it declares.
"""
