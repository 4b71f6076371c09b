# SPDX-License-Identifier: Apache-2.0
"""Files for other programs, and the folder of a result."""
