# SPDX-License-Identifier: Apache-2.0
"""
Build and install ``robot_identification``: by colcon into a workspace, or by pip.

colcon takes what the package needs from ``package.xml``; for pip without ROS the extra ``pip``
names the same packages: ``pip install '.[pip]'``.
"""

from pathlib import Path
import re

from setuptools import find_packages, setup

NAME = 'robot_identification'
HERE = Path(__file__).resolve().parent
NODES = ('excitation', 'identification', 'recorder', 'regressor', 'simulation')


def version():
    """Read the version from the package, where it is written once for all of Python."""
    text = (HERE / NAME / 'version.py').read_text(encoding='utf-8')
    return re.search(r"^__version__ = '([^']+)'$", text, re.MULTILINE).group(1)


def shared_files():
    """
    List what goes to ``share/robot_identification``, folder by folder.

    Returns
    -------
    list of (str, list of str)
        Destination below the prefix, and the files (relative to this one) that go there.
    """
    entries = [
        ('share/ament_index/resource_index/packages', [f'resource/{NAME}']),
        (f'share/{NAME}', ['package.xml']),
    ]
    for top in ('config', 'examples', 'launch', 'security', 'urdf'):
        by_folder = {}
        for path in sorted((HERE / top).rglob('*')):
            below = path.relative_to(HERE)
            if path.is_file() and not {'__pycache__', 'results'} & set(below.parts):
                by_folder.setdefault(below.parent.as_posix(), []).append(below.as_posix())
        entries += [(f'share/{NAME}/{folder}', files) for folder, files in by_folder.items()]
    return entries


setup(
    name=NAME,
    version=version(),
    description="Identification of robots' dynamic parameters, with ROS 2 nodes",
    maintainer='robot_identification maintainers',
    maintainer_email='robot-identification@users.noreply.github.com',
    license='Apache-2.0',
    packages=find_packages(include=[NAME, f'{NAME}.*']),
    package_data={
        '': [
            'py.typed',
            '**/*.css',
            '**/*.html',
            '**/*.j2',
            '**/*.js',
            '**/*.json',
            '**/*.xml',
            '**/*.yaml',
        ]
    },
    data_files=shared_files(),
    zip_safe=False,
    python_requires='>=3.10',
    install_requires=['setuptools'],
    extras_require={
        'pip': [
            'coal',
            'dask',
            'distributed',
            'jinja2',
            'lxml',
            'matplotlib',
            'mcap>=1.5',
            'mujoco>=3.2',
            'numba>=0.58',
            'numpy>=1.26',
            'pin>=4.0',
            'pyyaml',
            'rosbags>=0.10',
            'scipy>=1.11',
            'tqdm',
            'xacro',
        ],
        'test': ['hypothesis', 'pytest', 'pytest-timeout'],
    },
    entry_points={
        'console_scripts': [f'robot-identification = {NAME}.cli:main']
        + [f'{node}_node = {NAME}.nodes.{node}.node:main' for node in NODES],
    },
)
