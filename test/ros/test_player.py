# SPDX-License-Identifier: Apache-2.0
"""What the player refuses before anything is published."""

import pytest

pytest.importorskip('rclpy')

from robot_identification.errors import RecordingError
from robot_identification.nodes.player import play


def test_a_recording_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(RecordingError, match='does not exist: correct the path') as caught:
        play(tmp_path / 'nothing')
    assert caught.value.file == str(tmp_path / 'nothing')
