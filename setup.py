# SPDX-License-Identifier: Apache-2.0
"""
Build and install ``robot_identification``: by colcon into a workspace, or by pip.

colcon takes what the package needs from ``package.xml``; pip takes it from ``requirements/``: the
numerical core and the command line, and the extras (`EXTRAS`).
"""

from pathlib import Path
import re

from setuptools import find_packages, setup

NAME = 'robot_identification'
HERE = Path(__file__).resolve().parent
EXTRAS = ('fast', 'sim', 'fleet', 'notebook', 'parquet', 'hdf5', 'window')
OLDEST = {
    'backports-zstd': '1.0',
    'coal': '3.0',
    'cryptography': '41.0',
    'dask': '2025.1',
    'distributed': '2025.1',
    'fastapi': '0.133',
    'h5py': '3.11',
    'ipykernel': '6.29',
    'jinja2': '3.1',
    'lxml': '5.2',
    'mcap': '1.5',
    'mujoco': '3.14',
    'nbformat': '5.9',
    'nicegui': '3.18',
    'numba': '0.58',
    'numpy': '1.26',
    'pandas': '2.2.2',
    'pin': '4.0',
    'plotly': '6.5',
    'pyarrow': '15.0',
    'pyyaml': '6.0',
    'rosbags': '0.11.6',
    'scipy': '1.11',
    'threadpoolctl': '3.1',
    'tqdm': '4.66',
    'uvicorn': '0.22',
    'xacro': '2.0',
}
"""
Oldest versions that pip admits.

With older ones tests fell: MuJoCo 3.12 moves some robots by other efforts than Pinocchio, mcap,
rosbags and plotly lack what is called, Dask 2024.8 listens on more than this machine, and pandas
before 2.2.2 is not built for NumPy 2, which Pinocchio's wheels need: of NumPy and SciPy, pip takes
2.0 and 1.13 at least.  Of NiceGUI, none before 3.18 was tried; that one admits none of FastAPI
and Uvicorn before these.  The others were not searched for their oldest.  Beside ROS, rosdep
brings what the distribution has.
"""
NODES = sorted(path.stem for path in (HERE / NAME / 'nodes').glob('*_node.py'))


def version():
    """Read the version from the package, where it is written once for all of Python."""
    text = (HERE / NAME / 'version.py').read_text(encoding='utf-8')
    return re.search(r"^__version__ = '([^']+)'$", text, re.MULTILINE).group(1)


def repository():
    """Read the address of the repository from package.xml, where it is written once."""
    text = (HERE / 'package.xml').read_text(encoding='utf-8')
    return re.search(r'<url type="repository">([^<]+)</url>', text).group(1)


def long_description():
    """Return README.md with links and pictures that lead to the repository from elsewhere, too."""
    text = (HERE / 'README.md').read_text(encoding='utf-8')
    base = repository()
    text = re.sub(r'(!\[[^]]*\]\()(?!\w+:|#)', rf'\1{base}/raw/HEAD/', text)
    return re.sub(r'((?<!!)\[[^]!]*\]\()(?!\w+:|#)', rf'\1{base}/blob/HEAD/', text)


def required(name):
    """
    Return the packages of a file in ``requirements/``, with the oldest versions that are admitted.

    The pins are for those who develop this package: beside others they would be in the way.
    """
    text = (HERE / 'requirements' / f'{name}.txt').read_text(encoding='utf-8')
    names = dict.fromkeys(re.findall(r'^([a-z0-9-]+)==', text, re.MULTILINE))
    return [f'{item}>={OLDEST[item]}' if item in OLDEST else item for item in names]


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
    long_description=long_description(),
    long_description_content_type='text/markdown',
    maintainer='robot_identification maintainers',
    maintainer_email='robot-identification@users.noreply.github.com',
    license='Apache-2.0',
    url=repository(),
    project_urls={
        'Documentation': f'{repository()}/blob/HEAD/docs/index.md',
        'Changelog': f'{repository()}/blob/HEAD/CHANGELOG.md',
        'Issues': f'{repository()}/issues',
    },
    classifiers=[
        'Development Status :: 4 - Beta',
        'Intended Audience :: Science/Research',
        'Operating System :: POSIX :: Linux',
        *(f'Programming Language :: Python :: 3.{minor}' for minor in range(10, 14)),
        'Topic :: Scientific/Engineering',
        'Typing :: Typed',
    ],
    keywords='robotics, system identification, dynamic parameters, ROS 2',
    packages=find_packages(include=[NAME, f'{NAME}.*']),
    package_data={
        '': [
            'py.typed',
            '**/*.css',
            '**/*.html',
            '**/*.j2',
            '**/*.js',
            '**/*.json',
            '**/*.pyi',
            '**/*.xml',
            '**/*.yaml',
        ]
    },
    data_files=shared_files(),
    zip_safe=False,
    python_requires='>=3.10',
    install_requires=required('runtime'),
    extras_require={
        **{extra: required(extra) for extra in EXTRAS},
        'test': ['hypothesis', 'nbclient', 'pytest', 'pytest-timeout'],
    },
    entry_points={
        'console_scripts': [f'robot-identification = {NAME}.cli:main']
        + [f'{node} = {NAME}.nodes.{node}:main' for node in NODES],
    },
)
