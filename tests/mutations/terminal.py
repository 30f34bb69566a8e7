"""What a terminal shows of a dump: every value at every width, the same without colours, and nothing twice."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

VIEW = "sidecar/cli/dump_view.py"
HISTORY = "sidecar/cli/history_view.py"
CALL = "sidecar/cli/dump_call.py"
STATUS = "sidecar/control/status.py"
PREVIEW = "sidecar/control/preview.py"
FITTED = "sidecar/cli/fitted.py"
TIMELINE = "sidecar/cli/timeline_view.py"
WHERE = "sidecar/cli/terminal.py"
QUERY = "sidecar/cli/query_command.py"
OF_FITTED = "tests/unit/cli/test_fitted.py"
OF_WIDTHS = "tests/unit/cli/test_widths.py"
OF_TIMELINE = "tests/unit/cli/test_timeline_view.py"
OF_QUERY = "tests/unit/cli/test_dumpquery.py"
OF_SERVICE = "tests/unit/control/test_service.py"

TERMINAL = [
    Mutation(
        "facts that are too long are cut",
        f"{FITTED}::facts_table",
        'overflow="fold"',
        "",
        f"{OF_WIDTHS}::test_no_line_is_longer_than_the_terminal_and_every_value_is_there_in_full[1800-80]",
    ),
    Mutation(
        "a name in a table is markup",
        f"{FITTED}::_cell",
        "Text(cell)",
        "cell",
        f"{OF_FITTED}::test_texts_of_a_table_are_not_markup",
    ),
    Mutation(
        "the bar stays where a terminal is narrow",
        f"{FITTED}::FittedTable.__rich_console__",
        " and room >= BAR_WIDTH_MIN",
        "",
        f"{OF_WIDTHS}::test_a_narrow_terminal_drops_the_bar_and_then_the_estimate[80-headings1]",
    ),
    Mutation(
        "the estimate stays where there is no room for it",
        f"{FITTED}::FittedTable.__rich_console__",
        "self._room(shown, console, options) >= 0",
        "True",
        f"{OF_WIDTHS}::test_a_narrow_terminal_drops_the_bar_and_then_the_estimate[70-headings0]",
    ),
    Mutation(
        "a verification's figures are cut in a narrow terminal",
        "sidecar/cli/verify_view.py::TABLE_COLUMNS",
        ", drop_order=1",
        "",
        f"{OF_FITTED}::test_a_wide_terminal_shows_of_a_verification_when_and_how_fast_too",
    ),
    Mutation(
        "a watch shows more tables than fit",
        f"{VIEW}::_StatusView.__rich_console__",
        "self.fits",
        "not self.fits",
        f"{OF_WIDTHS}::test_a_watch_shows_so_many_tables_as_the_terminal_is_high",
    ),
    Mutation(
        "a history is squeezed into columns of a narrow terminal",
        f"{HISTORY}::_HistoryView.__rich_console__",
        "options.max_width >= HISTORY_WIDTH_MIN",
        "True",
        f"{OF_WIDTHS}::test_the_history_is_whole_in_every_terminal[80]",
    ),
    Mutation(
        "NO_COLOR leaves bold and dim",
        f"{WHERE}::console_for",
        'None if os.environ.get("NO_COLOR") else ',
        "",
        f"{OF_WIDTHS}::test_without_colours_nothing_is_sent_but_text[{{'NO_COLOR': '1'}}]",
    ),
    Mutation(
        "a watch in a dumb terminal shows nothing before its end",
        f"{WHERE}::View.__init__",
        " and not console.is_dumb_terminal",
        "",
        f"{OF_WIDTHS}::test_a_watch_in_a_dumb_terminal_is_lines",
    ),
    Mutation(
        "a character that the terminal lacks ends the command",
        f"{WHERE}::console_for",
        'sys.stdout.reconfigure(errors="replace")',
        "pass",
        f"{OF_WIDTHS}::test_what_the_terminal_has_no_character_for_is_a_question_mark",
    ),
    Mutation(
        "blocks are sent to a terminal that has none",
        f"{TIMELINE}::Sparkline.__rich_console__",
        "BLOCKS_ASCII if options.ascii_only else ",
        "",
        f"{OF_TIMELINE}::test_where_the_encoding_has_no_blocks_the_line_is_ascii[ascii]",
    ),
    Mutation(
        "what is above the bound is shown by its colour alone",
        f"{TIMELINE}::Sparkline._level",
        "not self.is_bounded",
        "True",
        f"{OF_TIMELINE}::test_the_lower_half_is_within_the_bound_and_the_upper_half_above_it",
    ),
    Mutation(
        "a peak is lost among the values of its column",
        f"{TIMELINE}::Sparkline._columns",
        "] = max",
        "] = min",
        f"{OF_TIMELINE}::test_values_of_one_column_are_the_worst_of_them_and_stay_there_while_time_goes_on",
    ),
    Mutation(
        "a watch in a terminal forgets the minutes before",
        f"{TIMELINE}::WatchedTimeline.new",
        "[*self._samples, *samples]",
        "samples",
        f"{OF_QUERY}::test_a_watch_in_a_terminal_shows_the_minutes_before_beside_what_is_new",
    ),
    Mutation(
        "a watch that begins again returns samples twice",
        f"{TIMELINE}::WatchedTimeline.new",
        " if (one.epoch, one.at_ms) > self._last",
        "",
        f"{OF_TIMELINE}::test_a_watch_that_begins_again_returns_nothing_twice",
    ),
    Mutation(
        "the dropped rows of a chunk that was returned before are omitted",
        f"{TIMELINE}::WatchedTimeline.new",
        "one.SerializeToString(deterministic=True) not in",
        "not",
        f"{OF_TIMELINE}::test_a_chunk_is_reported_once_and_again_when_its_dropped_rows_are_known",
    ),
    Mutation(
        "programs that did not ask for the timeline get one",
        "sidecar/control/wire.py::status_json",
        '    if not status.HasField("timeline"):\n        del known["timeline"]\n',
        "",
        f"{OF_QUERY}::test_without_the_option_the_json_has_no_timeline",
    ),
    Mutation(
        "logs ask for a timeline that nobody sees",
        f"{QUERY}::dumpquery",
        "timeline or (call.console.is_terminal and not call.as_json)",
        "True",
        f"{OF_QUERY}::test_the_timeline_is_requested_with_the_status_where_it_is_shown[False-given1-False-]",
    ),
    Mutation(
        "a command that shows a failed dump ends well",
        f"{CALL}::exit_code_of",
        "EXIT_DUMP_FAILED if status.state == pb.DUMP_STATE_FAILED else ",
        "",
        f"{OF_QUERY}::test_a_command_that_shows_a_failed_dump_fails[dumpstart-]",
    ),
    Mutation(
        "a wait ends when the dump is in the log",
        f"{QUERY}::_has",
        "table.complete_at_tso > status.delivered_tso or (sink.began_seq and not sink.tables_known)",
        "False",
        f"{OF_QUERY}::test_a_wait_ends_when_the_rows_are_in_the_sinks_or_never_will_be[--statuses0-given0-0]",
    ),
    Mutation(
        "the time of a dump is estimated by one of a few rows",
        f"{PREVIEW}::rows_per_s_before",
        " >= NOTIFYING_ROWS",
        "",
        f"{OF_SERVICE}::test_the_time_is_by_a_dump_that_reports_how_fast_one_reads_tables_or_not_known[before1-0]",
    ),
    Mutation(
        "what holds the dump that runs is said of every dump",
        f"{STATUS}::SidecarStatus.dump_waiting_for",
        "dump is None or dump.state is DumpState.RUNNING",
        "True",
        "tests/unit/control/test_status.py::test_what_holds_the_dump_that_runs_holds_no_other_one",
    ),
]
