# SPDX-License-Identifier: Apache-2.0
"""Diagnosis of recordings: faults found, false alarms, on simulated arms and on real robots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
import time
from typing import Any

from robot_identification.config.experiment_file import load_experiment
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.recording import Recording
from robot_identification.diagnosis.diagnose import diagnose
from robot_identification.diagnosis.recording_faults import RecordingFault
from robot_identification.model.robot import Robot
from robot_identification.regressor.settings import ModelSettings
import yaml

from .advice import advice_errors, HARMFUL
from .faulty_arms import arm, Fault, FAULTS, faulty, KINDS, real
from .harness import Figure, Section, Table
from .real_recordings import DATA, panda, RealRobot, tx40, ur10e, xmate7

ROBOTS = 200
"""Clean recordings, and as many with faults."""

LARGE = 20
"""Clean recordings for one of two arms together."""

_CLEAN_SEED, _FAULTY_SEED, _REAL_SEED, _LARGE_SEED = 10_000, 20_000, 30_000, 40_000
_WHOLE = ('signs of all efforts', 'kind of effort', 'direction of gravity', 'delay of efforts')
_LARGE_KINDS = (
    *_WHOLE,
    'degrees',
    'sign of an effort',
    'efforts exchanged',
    'gravity compensated',
)
_NOT_IN_REAL = ('payload',)
"""Faults that cannot be put into a recording."""

Case = tuple[str, Robot, ModelSettings, Recording]
Hits = Counter[tuple[str, str]]
"""How often a kind was told first, beside another one, or not at all, and advice was harmful."""


def right(found: tuple[RecordingFault, ...], fault: Fault) -> str:
    """
    Return what was said of a fault.

    ``first`` where it was found, ``beside`` where it is told as fitting alike, ``another`` where
    something else rules out uses, ``remark`` where something else is a reservation, or nothing.
    """

    def matches(finding: RecordingFault) -> bool:
        alike = fault.joints is None or set(fault.joints) == set(finding.joints)
        return finding.code in (fault.code, *fault.also) and alike

    if any(map(matches, found)):
        return 'first'
    if any(matches(each) for f in found for each in f.alternatives):
        return 'beside'
    return 'another' if vetoes(found) else 'remark' if found else ''


def in_words(found: tuple[RecordingFault, ...]) -> str:
    """Return what was found in a few words."""
    texts = [
        ' or '.join(
            f'{each.code} {" ".join(each.joints)}'.strip() for each in (f, *f.alternatives)
        )
        for f in found
    ]
    return '; '.join(texts) or 'nothing'


def vetoes(found: tuple[RecordingFault, ...]) -> bool:
    """Return whether a finding rules out uses: it is no reservation."""
    return any(not each.minor for each in found)


def _counted(
    hits: Hits,
    kind: str,
    fault: Fault,
    found: tuple[RecordingFault, ...],
    model: ModelSettings | None = None,
) -> str:
    """Count what was said of a fault; return a miss or harmful advice in words, else nothing."""
    said = right(found, fault)
    hits[kind, said] += 1
    errors = advice_errors(fault.robot, fault.recording, found, fault.clean, model)
    harmful = errors is not None and errors[1] > HARMFUL * errors[0]
    hits[kind, 'advice'] += errors is not None
    hits[kind, 'harmful'] += harmful
    text = in_words(found)
    if harmful and errors is not None:
        before, after = (f'{100.0 * error:.2g}' for error in errors)
        text += f', harmful advice: error {after} % with it, {before} % without'
    return text if harmful or said != 'first' else ''


def large(count: int) -> tuple[int, list[str]]:
    """Diagnose so many pairs of arms of seven joints with faults; return how many were first."""
    hits, missed = 0, []
    for seed in range(_LARGE_SEED, _LARGE_SEED + count):
        kind = _LARGE_KINDS[seed % len(_LARGE_KINDS)]
        fault = FAULTS[kind](arm(seed, joints=14))
        found = diagnose(fault.robot, [fault.recording])
        hits += right(found, fault) == 'first'
        if right(found, fault) != 'first':
            missed.append(f'14 joints, {kind}, seed {seed}: {in_words(found)}')
    return hits, missed


def false_alarms(count: int) -> tuple[list[str], list[str], list[float]]:
    """Diagnose recordings without faults; return what was found, what vetoes, and seconds."""
    alarms, vetoed, seconds = [], [], []
    for seed in range(_CLEAN_SEED, _CLEAN_SEED + count):
        made = arm(seed)
        start = time.process_time()
        found = diagnose(made.robot, [made.recording])
        seconds.append(time.process_time() - start)
        if found:
            alarms.append(f'seed {seed}: {in_words(found)}')
        if vetoes(found):
            vetoed.append(alarms[-1])
    return alarms, vetoed, seconds


def simulated(count: int) -> tuple[Counter[str], Hits, list[str]]:
    """Diagnose recordings with faults; return how many there were and were found, and misses."""
    made, hits, missed = Counter[str](), Counter[tuple[str, str]](), []
    for i in range(count):
        kind = KINDS[i % len(KINDS)]
        fault = faulty(kind, _FAULTY_SEED + i)
        found = diagnose(fault.robot, [fault.recording])
        made[kind] += 1
        if text := _counted(hits, kind, fault, found):
            missed.append(f'{kind}, seed {_FAULTY_SEED + i}: {text}')
    return made, hits, missed


def real_cases() -> Iterator[Case]:
    """Iterate over the real recordings that are here, those with a load or pushes left out."""
    for robot in (tx40(), ur10e(), panda(), xmate7()):
        if not robot.missing:
            yield from _cases(robot)


def on_real(cases: list[Case]) -> tuple[Counter[str], Hits, list[str], list[str]]:
    """
    Diagnose real recordings as they are, and the first of each robot with faults.

    Return what `simulated` does, and false alarms.
    """
    made, hits, missed, alarms = Counter[str](), Counter[tuple[str, str]](), [], []
    for place, (name, robot, model, recording) in enumerate(cases):
        found = diagnose(robot, [recording], model)
        if found:
            alarms.append(f'{name}: {in_words(found)}')
        if any(robot is each[1] for each in cases[:place]):
            continue  # faults are put into the first recording of each robot
        for number, kind in enumerate(KINDS):
            if kind in _NOT_IN_REAL:
                continue
            seed = _REAL_SEED + 100 * place + number
            fault = FAULTS[kind](real(robot, recording, seed))
            found = diagnose(fault.robot, [fault.recording], model)
            made[kind] += 1
            if text := _counted(hits, kind, fault, found, model):
                missed.append(f'{name}, {kind} {" ".join(fault.joints or ())}: {text}')
    return made, hits, missed, alarms


def load_found() -> bool | None:
    """Return whether the load of the UR10e's recording with one is found; None without it."""
    if not (DATA / 'ur10e').is_dir():
        return None
    robot = ur10e()
    entry = {**robot.identification, 'file': str(DATA / 'ur10e' / 'excite_50s_b_load.csv')}
    (case,) = _opened(robot, {'identification': [entry]})
    return any(finding.code == 'payload' for finding in diagnose(case[1], [case[3]]))


def section(robots: int = ROBOTS) -> Section:
    """Count hits and false alarms of so many recordings without faults, and with."""
    alarms, vetoed, seconds = false_alarms(robots)
    pairs = max(1, robots // LARGE)
    named, unnamed = large(pairs)
    made, hits, missed = simulated(robots)
    cases = list(real_cases())
    real_made, real_hits, real_missed, real_alarms = on_real(cases)
    rows = [
        [
            kind,
            *_counts(hits, made, [kind]),
            *_others(hits, made, [kind]),
            *_counts(real_hits, real_made, [kind]),
            *_others(real_hits, real_made, [kind]),
        ]
        for kind in KINDS
    ]
    rows.append(
        [
            'all',
            *_counts(hits, made, KINDS),
            *_others(hits, made, KINDS),
            *_counts(real_hits, real_made, KINDS),
            *_others(real_hits, real_made, KINDS),
        ]
    )
    none = f'{len(real_alarms)} of {len(cases)}' if cases else '-'
    rows.append(['false alarms', f'{len(alarms)} of {robots}', *4 * [''], none, *4 * ['']])
    said = ['or beside it', 'another veto', 'a remark or nothing', 'harmful advice']
    heads = ['planted', 'named, simulated', *said, 'named, real recordings', *said]
    tables = [Table(heads, rows, 'Faults found')]
    wrong = [*alarms, *missed, *unnamed, *real_alarms, *real_missed]
    if wrong:
        tables.append(
            Table(
                ['case', 'reported'], [line.split(': ', 1) for line in wrong], 'Misses and alarms'
            )
        )
    figures = [
        Figure('faults found in simulation', _share(hits, made), at_least=0.95),
        Figure('faults named first or refused in simulation', _caught(hits, made), at_least=0.95),
        Figure('false alarms in simulation', len(alarms)),
        Figure('false vetoes in simulation', len(vetoed) / robots, at_most=0.02),
        Figure('harmful advice in simulation', _harmful(hits), at_most=0),
        Figure('faults of 14 joints found', named / pairs, at_least=0.95),
        Figure('seconds of a diagnosis, median', sorted(seconds)[len(seconds) // 2], 's'),
        Figure('seconds of a diagnosis, longest', max(seconds), 's'),
    ]
    if cases:
        share = _share(real_hits, real_made)
        figures.append(Figure('faults found in real recordings', share))
        caught = _caught(real_hits, real_made)
        figures.append(
            Figure('faults named first or refused in real recordings', caught, at_least=0.95)
        )
        figures.append(Figure('harmful advice on real recordings', _harmful(real_hits), at_most=0))
        figures.append(Figure('false alarms on real recordings', len(real_alarms), at_most=0))
    if (found := load_found()) is not None:
        figures.append(Figure('load of the UR10e found', float(found), at_least=1))
    text = (
        'A fault is named where kind and joints of a finding are its own; *beside it* counts '
        'those, too, that are reported as fitting nearly as well. Otherwise another finding rules '
        'out uses, or the fault passes with a remark or without a word. *Harmful* is advice that, '
        'followed to the letter, makes the fitted robot miss the efforts of the recording without '
        'the fault by a tenth more than no advice does; of advice that was given. See '
        '[diagnosis](../how_to/diagnosis.md).'
    )
    return Section('Diagnosis of recordings', text, tables, figures)


def _counts(hits: Hits, made: Counter[str], kinds: Sequence[str]) -> list[str]:
    """Return how many were told first, and first or beside another, of how many."""
    total = sum(made[kind] for kind in kinds)
    first = sum(hits[kind, 'first'] for kind in kinds)
    beside = sum(hits[kind, 'beside'] for kind in kinds)
    return [f'{first} of {total}', f'{first + beside}'] if total else ['-', '-']


def _others(hits: Hits, made: Counter[str], kinds: Sequence[str]) -> list[str]:
    """Return how often something else ruled out uses, it was let through, and advice did harm."""
    if not sum(made[kind] for kind in kinds):
        return ['-', '-', '-']
    words = ('another', 'remark', '', 'advice', 'harmful')
    counts = {said: sum(hits[kind, said] for kind in kinds) for said in words}
    harmful = f'{counts["harmful"]} of {counts["advice"]}' if counts['advice'] else '-'
    return [str(counts['another']), str(counts['remark'] + counts['']), harmful]


def _harmful(hits: Hits) -> int:
    return sum(count for (_, said), count in hits.items() if said == 'harmful')


def _share(hits: Hits, made: Counter[str]) -> float:
    return sum(hits[kind, 'first'] for kind in made) / max(1, sum(made.values()))


def _caught(hits: Hits, made: Counter[str]) -> float:
    """Return the share of faults that are named first, or with which uses are ruled out."""
    caught = sum(hits[kind, said] for kind in made for said in ('first', 'another'))
    return caught / max(1, sum(made.values()))


def _cases(robot: RealRobot) -> list[Case]:
    entries = [robot.identification, *robot.held_out.values()]
    return _opened(robot, {'identification': entries})


def _opened(robot: RealRobot, data: dict[str, Any]) -> list[Case]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / 'experiment.yaml'
        path.write_text(yaml.safe_dump({'robot': _plain(robot.robot), 'data': _plain(data)}))
        experiment = load_experiment(path)
        problem = IdentificationProblem.from_experiment(experiment)
        sources = experiment.sources('identification', problem.robot.joints)
        cases = []
        for source in sources:
            (recording,) = source.blocks(10**7)
            name = '/'.join(Path(recording.source).parts[-2:])
            cases.append((name, problem.robot, problem.model, recording))
    return cases


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
