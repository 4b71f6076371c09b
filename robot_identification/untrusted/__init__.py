# SPDX-License-Identifier: Apache-2.0
"""
Readers of untrusted files: every file that a user names is read through this package.

It checks what formats do not: that a path is that of a regular file, the sizes of files, nesting
and expansion of YAML, and the expansion of compressed data.
"""
