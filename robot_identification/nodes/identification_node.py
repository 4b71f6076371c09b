# SPDX-License-Identifier: Apache-2.0
"""
Node ``identification``: identification from recordings on request.

Requests wait for each other in a thread beside the executor, so that the node answers parameter
requests and publishes its state meanwhile.  Those that take long are actions, too.  For live
identification see `online_service`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
import math
from pathlib import Path
import sys
import time
from typing import Any

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from robot_identification_msgs import action, srv
from robot_identification_msgs.msg import (
    Fit,
    JointFit,
    LinkConsistency,
    ParameterSet,
    RecorderStatus,
)
from std_msgs.msg import Header
from std_srvs.srv import Trigger

from ..config.experiment import Experiment
from ..config.problem import IdentificationProblem, Recordings
from ..config.requests import overrides_of, result_name
from ..errors import (
    collected_warnings,
    IdentificationError,
    RecordingError,
    SettingsError,
    unique_texts,
)
from ..estimation.estimators import without_unkept_bounds
from ..exports.formats import export
from ..exports.saving import require_writable, save, saved_screen, SavedFiles
from ..identification import pipeline
from ..identification.revalidation import add_validation
from ..identification.tool_pipeline import identify_tool, save_tool
from ..model.consistency import check
from ..pages.headline import figures_of, headline
from ..results.exported_files import file_sentences, URDF
from ..results.result import Result
from ..support.progress import no_progress, Progress, subrange
from ..untrusted.directories import given_path
from ..untrusted.writing import write_named
from ..verdicts.verdict import verdict
from .common import LATCHED, now, run, serve, serve_action, steady_timer
from .common.messages import (
    base_parameters_message,
    diagnostic_status,
    diagnostics,
    fit_message,
    messages_of,
    parameters_from_message,
    standard_parameters_message,
    tool_answer,
)
from .common.requests import ENDING, RequestCanceled, RequestQueue
from .identification_settings import Settings
from .online_service import OnlineService

REQUEST_GRACE_PERIOD = 6.0
"""Time for a running request when the node ends; `run` allows a little more [s]."""

STATUS = 'recorder/status'
"""Topic of the recorder's status."""

RECORDER_SECONDS = 5.0
"""Longest wait for news of the recorder [s]: Fast DDS sends again what was lost every 3 s."""

FEEDBACK_SECONDS = 0.1  # between two messages of an action's progress

WRITING = 0.9  # share of the work after which files are written


class IdentificationNode(Node):
    """Adapter between the services and topics of the node and `pipeline`."""

    def __init__(self) -> None:
        super().__init__('identification')
        self._settings = settings = Settings(self)
        self._latest: Latest | None = None
        self._recorder: RecorderStatus | None = None
        self._state = State()
        self._report: Progress = no_progress  # of the request that is worked on
        self._stopping = False
        self._queue = RequestQueue(self)
        self._parameters_out = self.create_publisher(ParameterSet, '~/parameters', LATCHED)
        self._fit_out = self.create_publisher(Fit, '~/fit', LATCHED)
        self._diagnostics_out = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self.create_subscription(RecorderStatus, STATUS, self._on_recorder, LATCHED)
        requests = ReentrantCallbackGroup()  # a request does not keep others from being refused
        for name, function, kind, longer in (
            ('identify', self._identify, srv.Identify, action.Identify),
            ('identify_tool', self._identify_tool, srv.IdentifyTool, None),
            ('check_consistency', self._check_consistency, srv.CheckConsistency, None),
            ('validate', self._validate, srv.Validate, action.Validate),
            ('export_urdf', self._export_urdf, srv.ExportUrdf, None),
            ('reset', self._reset, Trigger, None),
        ):
            work = partial(self._work, name, function)
            serve(self, kind, f'~/{name}', work, queue=self._queue, callback_group=requests)
            if longer is not None:
                execute = partial(self._execute, longer, name, function)
                serve_action(self, longer, f'~/{name}', execute, requests)
        # by the wall: the state has to show where a simulation's clock stands still, too
        steady_timer(self, 1.0, self._on_timer)
        self._online = OnlineService(self, self._problem, settings.description, settings.output)

    async def on_shutdown(self) -> None:
        """End the live identification; have a running request give up, and wait for that."""
        self._stopping = True
        await self._online.close()
        await self._queue.stop(REQUEST_GRACE_PERIOD)

    # -------------------------------------------------------------------------------- messages in

    def _on_recorder(self, message: RecorderStatus) -> None:
        self._recorder = message

    def _on_timer(self) -> None:
        status = state_diagnostic(self.get_fully_qualified_name(), self._state, self._latest)
        self._diagnostics_out.publish(diagnostics(self, status))

    async def _execute(
        self,
        kind: Any,
        name: str,
        function: Callable[[Any, Any], str],
        goal: ServerGoalHandle,
        result: Any,
    ) -> None:
        """Work on a goal as on a request to the service of its name."""
        due = [0.0]

        def report(fraction: float, text: str) -> None:
            if goal.is_cancel_requested:
                raise RequestCanceled('canceled; nothing was written')
            if time.monotonic() >= due[0]:
                due[0] = time.monotonic() + FEEDBACK_SECONDS
                goal.publish_feedback(kind.Feedback(phase=text, progress=fraction))

        work = partial(self._work, name, function, goal.request, result, report)
        result.message = await self._queue.work(name, work, lambda: goal.is_cancel_requested)

    def _work(
        self,
        name: str,
        function: Callable[[Any, Any], str],
        request: Any,
        response: Any,
        report: Progress = no_progress,
    ) -> str:
        """Work on a request, and show that in the state."""
        self._state, self._report = replace(self._state, busy=name), report
        failure = ''
        try:
            message = function(request, response)
            self.get_logger().info(f'{name}: {message}')
            return message
        except Exception as error:  # shown in /diagnostics, then handled by `serve`
            failure = f'{name}: {error}'
            raise
        finally:
            self._state = State(failure=failure)

    # ----------------------------------------------------------------------------------- requests

    def _identify(self, request: srv.Identify.Request, response: srv.Identify.Response) -> str:
        overrides = _overrides(request)
        if request.method:
            overrides['estimation.method'] = request.method
        entries = self._settings.entries(self._source(request.source))
        experiment = self._settings.experiment(overrides, entries)
        # parameters of the node are for all methods, mrls's for the live identification, too
        estimation, unused = without_unkept_bounds(experiment.estimation, overrides)
        experiment = replace(experiment, estimation=estimation)
        problem = self._problem(experiment)
        recordings = Recordings.from_experiment(experiment, problem.robot.joints)
        name = result_name(recordings.identification[0], problem.estimation.method)
        folder = self._settings.output(name)
        require_writable(folder)
        progress = subrange(self._progress, 0.0, WRITING)
        result = pipeline.identify_recordings(problem, recordings, progress=progress)
        result = replace(result, warnings=unique_texts(result.warnings, unused))
        saved, remarks = self._keep(result, folder)
        estimate = result.estimate
        response.level, response.verdict = _judged(result, saved)
        response.base, response.standard = self._messages()
        response.joints = messages_of(JointFit, estimate.fit.joints)
        response.relative_error = float(estimate.fit.relative_error)
        response.condition_number = float(estimate.rows.condition_number)
        response.rank = int(result.structure.n_base)
        response.result_path = '' if saved is None else str(folder)
        return '; '.join([headline(result), *unused, *remarks])

    def _identify_tool(
        self, request: srv.IdentifyTool.Request, response: srv.IdentifyTool.Response
    ) -> str:
        source = self._source(request.source)
        experiment = self._settings.tool_experiment(
            source, request.frame, request.rotation, _overrides(request)
        )
        name = Path(source).stem if source else 'tool'
        folder = self._settings.output(f'{name}_tool')
        require_writable(folder)
        self._progress(0.0, f'identifying a tool from {source or "the experiment file"}')
        result = identify_tool(experiment)
        judged = verdict(result.identified)
        remarks = list(judged.remarks)
        try:
            response.result_path = str(save_tool(result, folder))
        except IdentificationError as error:
            remarks.append(str(error))
        tool_answer(result.identified, judged, response)
        return '; '.join([judged.sentence, *remarks])

    def _check_consistency(
        self, request: srv.CheckConsistency.Request, response: srv.CheckConsistency.Response
    ) -> str:
        if not (math.isfinite(request.tolerance) and request.tolerance >= 0.0):
            raise SettingsError(
                f"'tolerance' is {request.tolerance}",
                key='tolerance',
                value=request.tolerance,
                remedy='give 0 or a positive number',
            )
        if request.parameters.parameters:
            parameters = parameters_from_message(request.parameters)
        else:
            parameters = self._require_latest().result.standard
        report = check(parameters, request.tolerance)
        if not report.links:
            raise IdentificationError(
                'the parameters hold no link with its ten inertial parameters',
                remedy='give standard parameters: <link>.m, mx, my, mz, Ixx, ..., Izz',
            )
        response.physical = bool(report.physical)
        response.links = messages_of(LinkConsistency, report.links)
        return '; '.join(report.problems) or 'all links and joints are physically consistent'

    def _validate(self, request: srv.Validate.Request, response: srv.Validate.Response) -> str:
        latest = self._require_latest()
        entries = self._settings.entries(self._source(request.source))
        result = latest.result
        experiment = self._settings.experiment(entries=entries, model=result.settings.model)
        (source, *_) = sources = experiment.sources('identification', result.robot.joints)
        self._progress(0.0, f'validating on {source.source}')
        # the newest figures of a recording replace those of an earlier request
        others = tuple(v for v in result.validations if source.source not in v.sources)
        for place, source in enumerate(sources):
            shares = (WRITING * (place + i) / len(sources) for i in range(2))
            progress = subrange(self._progress, *shares)
            result = add_validation(replace(result, validations=others), source, progress=progress)
            others = result.validations
        validation = result.validations[-1]
        saved, remarks = self._keep(result, latest.folder, latest.stamp)
        response.level, response.verdict = _judged(result, saved)
        response.joints = messages_of(JointFit, validation.joints)
        response.relative_error = float(validation.relative_error)
        response.raw_relative_error = float(validation.raw_relative_error)
        text = f"relative error {validation.relative_error:.3g} % on '{source.source}'"
        if source.source in result.recorded.names:
            text += '; this is the recording that the estimate comes from: use another one'
        return '; '.join([text, *remarks])

    def _export_urdf(
        self, request: srv.ExportUrdf.Request, response: srv.ExportUrdf.Response
    ) -> str:
        result = self._require_latest().result
        with collected_warnings() as remarks:
            response.urdf = export(result, 'urdf')
        if request.path:
            path = self._settings.files.resolve(given_path(request.path, 'path'), 'path')
            if path.suffix != '.urdf':
                raise SettingsError(
                    f"'path': '{path}' does not end in .urdf", key='path', remedy='add that'
                )
            write_named(path, response.urdf, with_folder=True)
            response.path = str(path)
        said = () if result.files is None else file_sentences(result.files, URDF, 'the URDF')
        return '; '.join([*remarks, *said])

    def _reset(self, request: Trigger.Request, response: Trigger.Response) -> str:
        had, self._latest = self._latest, None
        header = Header(stamp=now(self).to_msg())
        # empty messages take the place of the latched ones
        self._parameters_out.publish(ParameterSet(header=header))
        self._fit_out.publish(Fit(header=header))
        return 'there was no estimate' if had is None else 'the estimate is forgotten'

    # -------------------------------------------------------------------------------------- parts

    def _problem(self, experiment: Experiment | None = None) -> IdentificationProblem:
        """Return the problem of an experiment; that of the present settings without one."""
        if experiment is None:
            experiment = self._settings.experiment()
        with collected_warnings():  # the robot keeps its own, and the result has them
            return replace(IdentificationProblem.from_experiment(experiment), name='')

    def _source(self, source: str) -> str:
        """Return the recording that a request means: an empty one the recorder's latest."""
        if not source:
            self._await_recorder()
        status = self._recorder
        if source or status is None or not status.path:
            return source
        if status.recording:
            raise RecordingError(
                f"'{status.path}' is still being recorded",
                file=status.path,
                remedy='stop the recording first, or name another one',
            )
        return status.path

    def _await_recorder(self) -> None:
        """Wait for the recorder's first status, and for that of the end of its recording."""
        end = time.monotonic() + RECORDER_SECONDS
        while time.monotonic() < end:
            status = self._recorder
            known = status is not None and not status.recording
            is_without = self._settings.has_recordings and not self.count_publishers(STATUS)
            if known or (status is None and is_without):
                return
            self._progress(0.0, "waiting for the recorder's status")
            time.sleep(0.02)

    def _keep(
        self, result: Result, folder: Path, stamp: Time | None = None
    ) -> tuple[SavedFiles | None, tuple[str, ...]]:
        """
        Write the result's files, then make it the latest estimate and publish it.

        Returns the files, None where ``result.yaml`` is not written, and remarks on what could not
        be written.
        """
        self._progress(WRITING, f'writing {folder}')  # the last chance to cancel
        saved: SavedFiles | None
        try:
            written = save(result, folder)
            saved, remarks = written, written.warnings
        except IdentificationError as error:
            saved, remarks = None, (str(error),)
        stamp = now(self).to_msg() if stamp is None else stamp
        self._latest = Latest(result, stamp, folder)
        for warning in unique_texts(result.warnings, remarks):
            self.get_logger().warning(warning)
        self._parameters_out.publish(self._messages()[0])
        self._fit_out.publish(fit_message(result.estimate, stamp))
        return saved, remarks

    def _messages(self) -> tuple[ParameterSet, ParameterSet]:
        """Return the latest estimate's base and standard parameters."""
        latest = self._require_latest()
        result, stamp = latest.result, latest.stamp
        standard = standard_parameters_message(
            result.standard, stamp, result.robot.name, result.standard_std, result.structure
        )
        return base_parameters_message(result.estimate, stamp), standard

    def _require_latest(self) -> Latest:
        if self._latest is None:
            raise IdentificationError(
                'there is no estimate yet', remedy='call ~/identify with a recording first'
            )
        return self._latest

    def _progress(self, fraction: float, text: str) -> None:
        if self._stopping:
            raise RequestCanceled(ENDING)
        self._report(fraction, text)
        self._state = replace(self._state, progress=fraction, step=text)


def _judged(result: Result, saved: SavedFiles | None) -> tuple[str, str]:
    """Return level and first screen of a result, as the command line prints it."""
    found = verdict(result)
    text = found.headline if saved is None else saved_screen(result, saved, '')[0].text()
    return found.level, text


def _overrides(request: Any) -> dict[str, str]:
    """Return the settings that a request's options name."""
    return overrides_of([(item.key, item.value) for item in request.options])


@dataclass(frozen=True)
class Latest:
    """The latest estimate, its time and the folder of its files."""

    result: Result
    stamp: Time
    folder: Path


@dataclass(frozen=True)
class State:
    """State of the node: request that is worked on, progress (0 to 1) and step; latest failure."""

    busy: str = ''
    progress: float = 0.0
    step: str = ''
    failure: str = ''


def state_diagnostic(node: str, state: State, latest: Latest | None) -> DiagnosticStatus:
    """
    Return the state of the node and of its latest estimate.

    The level is WARN where the latest request failed, or the estimate has a warning or is not
    physically consistent; else OK.
    """
    values: dict[str, Any] = {}
    text, warned = 'no estimate yet', bool(state.failure)
    if latest is not None:
        text, values = figures_of(latest.result)
        values['time'] = f'{latest.stamp.sec}.{latest.stamp.nanosec:09d}'
        values['results'] = latest.folder
        warned = warned or bool(latest.result.warnings) or not latest.result.plausible
    if state.failure:
        text = f'the latest request failed: {state.failure}'
    if state.busy:
        text = f'{state.busy}: {state.step} ({100.0 * state.progress:.0f} %)'
    robot = values.get('robot', '')
    return diagnostic_status(node, 'estimate', text, values, robot=robot, warned=warned)


def main(args: list[str] | None = None) -> int:
    """Run the node; return its exit code."""
    return run(IdentificationNode, args)


if __name__ == '__main__':
    sys.exit(main())
