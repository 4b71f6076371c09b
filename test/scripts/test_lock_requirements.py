# SPDX-License-Identifier: Apache-2.0
from lock_requirements import constraints


def test_versions_that_differ_get_a_marker_each():
    lines = constraints(
        {
            '3.9': {'NumPy': '1.0', 'ruamel.yaml': '0.19', 'tomli': '2.0'},
            '3.10': {'numpy': '2.0', 'ruamel_yaml': '0.19'},
        }
    )
    assert lines == [
        'numpy==1.0; python_version == "3.9"',
        'numpy==2.0; python_version == "3.10"',
        'ruamel-yaml==0.19',
        'tomli==2.0',
    ]


def test_the_suite_itself_is_not_locked():
    assert constraints({'3.12': {'robot_identification': '0.1', 'pip': '25.0'}}) == []
