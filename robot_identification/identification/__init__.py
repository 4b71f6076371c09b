# SPDX-License-Identifier: Apache-2.0
"""The way from recordings to a result: reduction, pipeline, revalidation, calls from Python."""
