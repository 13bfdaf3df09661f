"""The live view: asks again after each delay, and obeys keys. What it shows is made by ``view``."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static

from gsched.app.queued_job import QueuedJob
from gsched.app.watch import Look
from gsched.errors import GschedError
from gsched_cli.output import safe_text
from gsched_cli.queue_columns import state_style
from gsched_cli.top import view

Feed = Callable[[], Look]
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class JobList(Widget):
    """Headings and as many jobs as there are lines; draws no more than these."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[QueuedJob] = []
        self.cursor = 0
        self._top = 0

    @property
    def page(self) -> int:
        """Jobs on a page."""
        return max(1, self.size.height - 1)

    @property
    def current(self) -> QueuedJob | None:
        """The job under the cursor."""
        return self.jobs[self.cursor] if self.jobs else None

    def show(self, jobs: list[QueuedJob]) -> None:
        """Show other jobs; the cursor stays on its job while that is there."""
        held = self.current.slurm_id if self.current else None
        self.jobs = jobs
        found = (index for index, job in enumerate(jobs) if job.slurm_id == held)
        self.move(next(found, self.cursor))

    def move(self, to: int) -> None:
        """Set the cursor on a line, as near as there is one."""
        self.cursor = max(0, min(to, len(self.jobs) - 1))
        self.refresh()

    def render(self) -> Text:
        """The visible lines."""
        columns = view.columns_for(
            self.size.width,
            has_ranks=any(job.rank for job in self.jobs),
            has_forecasts=any(job.expected_start for job in self.jobs),
            has_progress=any(job.progress for job in self.jobs),
            has_deadlines=any(job.target_state for job in self.jobs),
        )
        lowest = max(0, len(self.jobs) - self.page)
        self._top = min(max(self._top, self.cursor - self.page + 1), self.cursor, lowest)
        lines = [Text(view.headings(columns), Style(bold=True, reverse=True))]
        for index in range(self._top, min(self._top + self.page, len(self.jobs))):
            job = self.jobs[index]
            style = Style(color=state_style(job), reverse=index == self.cursor)
            lines.append(Text(view.job_line(job, columns), style))
        return Text("\n", no_wrap=True, overflow="crop").join(lines)


class Page(ModalScreen[None]):
    """A page of text over the table; Esc, q or Enter closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q,enter,question_mark", "dismiss", "close"),
    ]
    CSS = "Page VerticalScroll { border: solid ansi_default; width: 100%; height: 100%; }"

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """The text, which scrolls."""
        with VerticalScroll():
            yield Static(Text(self._text))


class TopApp(App[int]):
    """The application; `run` returns its exit code.

    `feed` gives the present state and may raise GschedError: then the last state stays in view.
    `on_quit` is called before the application ends, to stop a feed that is under way. What goes
    wrong inside is left in `failure`.
    """

    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    CSS = """
    Screen { layout: vertical; }
    #header { height: 2; }
    #status, Input { height: 1; border: none; padding: 0; }
    #header, #status { text-wrap: nowrap; text-overflow: ellipsis; }
    JobList { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "leave(0)", "quit"),
        Binding("ctrl+c", "leave(130)", "quit", priority=True),
        ("up", "move(-1)", ""),
        ("down", "move(1)", ""),
        ("pageup", "page(-1)", ""),
        ("pagedown", "page(1)", ""),
        ("home", "end(0)", ""),
        ("end", "end(1)", ""),
        Binding("slash", "find", "find", priority=True),  # before the next key, however fast
        ("escape", "forget", ""),
        ("u", "own", "own jobs"),
        ("s", "sort", "sort"),
        ("p", "pause", "pause"),
        ("enter", "details", "details"),
        ("question_mark", "help", "help"),
    ]

    def __init__(
        self, feed: Feed, delay_s: float, owner: str, on_quit: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__()
        self._feed = feed
        self._delay_s = delay_s
        self._owner = owner
        self._on_quit = on_quit
        self._look: Look | None = None
        self._error = ""
        self._choice = view.Choice()
        self._goes_on = asyncio.Event()
        self.failure: Exception | None = None

    def compose(self) -> ComposeResult:
        """Header, jobs, the line of keys, and a hidden line to type in."""
        yield Static(id="header")
        yield JobList()
        yield Static(id="status")
        yield Input(placeholder="only jobs with this text")

    def on_mount(self) -> None:
        """Begin to look; signals end the view as a key does, so that the terminal is restored."""
        self.theme = "ansi-dark"  # the colours of the terminal itself
        self.query_one(Input).display = False
        self._goes_on.set()
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(
                number, self.action_leave, 128 + int(number)
            )
        if not self.is_headless:
            signal.signal(signal.SIGHUP, self._hung_up)
        self.set_interval(1, self._show_header)
        self.run_worker(self._watch())
        self._show()

    async def _watch(self) -> None:
        while True:
            await self._goes_on.wait()
            try:
                self._look = await asyncio.to_thread(self._feed)
                self._error = ""
            except GschedError as error:
                self._error = safe_text(error.message)
            self._show()
            await asyncio.sleep(self._delay_s)

    def _hung_up(self, number: int, _frame: FrameType | None) -> None:
        """End at once when the terminal is gone: whoever still draws there may wait for ever, so
        that no loop is left that could end in good order.
        """
        self._on_quit()
        if not os.isatty(0):
            os._exit(128 + number)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.action_leave, 128 + number)

    def _handle_exception(self, error: Exception) -> None:
        """Instead of a traceback on the terminal: keep the error for the caller, and end."""
        super()._handle_exception(error)
        self._exit_renderables.clear()
        self.failure = error
        self._on_quit()

    # -- what is shown ------------------------------------------------------------------------

    def _show(self) -> None:
        if not self.query(JobList):  # the application is ending: its parts are gone
            return
        jobs = self._look.queue.jobs if self._look else ()
        chosen = self._choice.of(jobs)
        self.query_one(JobList).show(chosen)
        self.query_one("#status", Static).update(
            Text(view.status(self._choice, len(chosen), len(jobs)))
        )
        self._show_header()

    def _show_header(self) -> None:
        is_paused = not self._goes_on.is_set()
        lines = view.header(self._look, self._error, time.time(), is_paused)
        text = Text("\n".join(lines))
        if self._error:
            text.stylize(Style(color="red", bold=True), len(lines[0]) + 1)
        for line in self.query("#header").results(Static):  # none while the application ends
            line.update(text)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A / that is typed into the line of text is text."""
        return action != "find" or (self.focused is None and len(self.screen_stack) == 1)

    # -- keys ---------------------------------------------------------------------------------

    def action_leave(self, code: int) -> None:
        """End with an exit code."""
        self._on_quit()
        self.exit(code)

    def action_move(self, lines: int) -> None:
        """Move the cursor."""
        jobs = self.query_one(JobList)
        jobs.move(jobs.cursor + lines)

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        jobs = self.query_one(JobList)
        jobs.move(jobs.cursor + pages * jobs.page)

    def action_end(self, last: int) -> None:
        """Go to the first or the last job."""
        jobs = self.query_one(JobList)
        jobs.move(len(jobs.jobs) * last)

    def action_own(self) -> None:
        """Own jobs only, or all."""
        owner = self._owner if self._choice.owner is None else None
        self._choose(replace(self._choice, owner=owner))

    def action_sort(self) -> None:
        """The next order."""
        self._choose(replace(self._choice, sort=(self._choice.sort + 1) % len(view.SORTS)))

    def action_pause(self) -> None:
        """Ask Slurm no more, or again."""
        if self._goes_on.is_set():
            self._goes_on.clear()
        else:
            self._goes_on.set()
        self._show_header()

    def action_details(self) -> None:
        """All that is known of the job under the cursor."""
        job = self.query_one(JobList).current
        if job and self._look:
            self.push_screen(Page("\n".join(view.details(job, self._look.queue.note))))

    def action_help(self) -> None:
        """The keys."""
        self.push_screen(Page(view.HELP))

    def action_find(self) -> None:
        """Type a text that jobs must have."""
        line = self.query_one(Input)
        line.display = True
        self.set_focus(line)

    def action_forget(self) -> None:
        """Show jobs with any text again."""
        line = self.query_one(Input)
        line.value = ""
        line.display = False
        self.set_focus(None)
        self._choose(replace(self._choice, text=""))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Narrow the list while the user types."""
        self._choose(replace(self._choice, text=event.value))

    def on_input_submitted(self) -> None:
        """Keep the text, and give the keys back to the list."""
        self.query_one(Input).display = False
        self.set_focus(None)

    def _choose(self, choice: view.Choice) -> None:
        self._choice = choice
        self._show()
