# SPDX-License-Identifier: Apache-2.0

from .change_detector import Change as Change
from .change_detector import ChangeDetector as ChangeDetector
from .change_detector import ChangeSettings as ChangeSettings
from .delay import DelayRows as DelayRows
from .delay import DelayWatch as DelayWatch
from .filters import StreamCounts as StreamCounts
from .identifier import identifier_of as identifier_of
from .identifier import OnlineIdentifier as OnlineIdentifier
from .identifier import Update as Update
