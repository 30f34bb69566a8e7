"""What pages show, how large they get, and what is on none of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from msgspec import structs

from sidecar.control.client import Access, ControlClient
from sidecar.control.status import SidecarStatus
from sidecar.control.wire import status_json
from sidecar.shared.config import ConsoleSection, KafkaSection, LogSection
from sidecar.shared.log import storage
from sidecar.shared.log.dump_files import REPORTS
from sidecar.shared.model.hole import HoleCause, OpenHole
from sidecar.shared.model.nouns import CommitTs, Seq
from sidecar.shared.model.progress import DumpState, Progress
from tests.support.console import CONFIG, HERE, Browser, ServedConsole, Shown, browser_of, console_of
from tests.support.console_shop import DONE, DUMP, SINKS, VERIFIED, Shop
from tests.support.eventually import eventually
from tests.unit.control.serving import Owner, Serving, standby
from ticdc_dump.v1 import control_pb2 as pb

DATA = re.compile(r'<data data-of="([^"]*)" value="([^"]*)">')
PAGES = ["/", "/dump", "/start", "/start?preview=1", "/reading?table=shop.orders", "/history", "/verification", "/checks", "/settings"]
PAGE_BYTES_MAX = 300_000


@contextmanager
def opened(shop: Shop, folder: Path, **given: Any) -> Iterator[Browser]:
    with shop.owner() as owner, shop.console(owner, folder, **given) as console:
        yield browser_of(console, logged_in=True)


def numbers(text: str) -> dict[str, str]:
    return {path: unescape(value) for path, value in DATA.findall(text)}


def value_at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value[int(name)] if name.isdecimal() else value[name]
    return value


# ---- numbers ---------------------------------------------------------------------------------------------------------


def test_every_number_of_stream_and_dump_is_that_of_the_service(tmp_path: Path) -> None:
    shop = Shop()
    with shop.owner() as owner, shop.console(owner, tmp_path) as console, Serving(owner.served(**shop.served())) as serving:
        browser = browser_of(console)
        with ControlClient(serving.address, Access(patience_s=1.0)) as client:
            of_service = status_json(client.call("Query", pb.DumpRequest(changefeed=pb.Changefeed(id="cf"))))
        for path, least in (("/", 35), ("/dump", 40)):
            shown = numbers(browser.get(path).text)
            assert len(shown) >= least
            for place, value in shown.items():
                of_json = value_at(of_service, place)
                assert (value if isinstance(of_json, str) else json.loads(value)) == of_json, place


def test_figures_of_a_dump_are_sums_of_its_tables(tmp_path: Path) -> None:
    with opened(Shop(), tmp_path) as browser:
        words = browser.get("/dump").words
        assert "Tables complete 4 of 7" in words
        assert "Done 34%" in words, "by rows: the four are small"
        assert f"Rows {sum(one.rows for one in Shop().progress().tables):,}" in words
        assert "Time left 4 min 14 s" in words
        assert "Waiting for held back by delivery" in words


class OfDdl(Shop):
    """Its dump is for a DDL."""

    def progress(self) -> Progress:
        return replace(Shop.progress(self), for_ddl=CommitTs(77), sinks=(SINKS[0],))


def test_a_dump_for_a_ddl_says_so_and_what_a_stop_of_it_leaves(tmp_path: Path) -> None:
    shop = OfDdl()
    with shop.owner() as owner, shop.console(owner, tmp_path) as console:
        page = browser_of(console, logged_in=True).get("/dump")
        assert f"It brings the values of the DDL at commit_ts 77 to {SINKS[0]}." in page.words
        assert "lack the values of the DDL at commit_ts 77 in a sink that has carried it out" in page.text
    with opened(Shop(), tmp_path / "another") as browser:
        assert "DDL at commit_ts" not in browser.get("/dump").text


# ---- pages -----------------------------------------------------------------------------------------------------------


class WithHoles(Shop):
    """Each sink has a hole in the first tables."""

    def status(self, status: SidecarStatus) -> SidecarStatus:
        status = Shop.status(self, status)
        hole = OpenHole(HoleCause.IMPORT, self.ago(7200), Seq(4), vanished=True, text=self.mark("IMPORT INTO orders"))
        names = self.names[:4]
        known = {
            name: replace(tables, holes=dict.fromkeys(names, hole), complete={}) for name, tables in status.sink_tables.items()
        }  # fmt: skip
        return replace(status, sink_tables=known)


def test_tables_with_a_hole_are_named_below_the_sinks(tmp_path: Path) -> None:
    with opened(WithHoles(lambda text: f"{text}<i>"), tmp_path) as browser:
        page = browser.get("/")
    [line] = re.findall(r'<li class="warn">(.*?)</li>', page.text)
    assert "and 1 more tables in sinks" in line
    assert "import: IMPORT INTO orders&lt;i&gt;; rows may be gone in TiDB" in line
    assert "Incomplete tables" in page.words
    with opened(Shop(), tmp_path / "another") as browser:
        assert "Incomplete tables" not in browser.get("/").words


def test_the_history_names_who_requested_each_and_links_to_what_there_is(tmp_path: Path) -> None:
    with opened(Shop(), tmp_path) as browser:
        page = browser.get("/history")
        assert "token 1f0c22ab at 10.2.0.14:51822 (after the migration)" in page.words
        assert f'href="/reports/{DONE}.html"' in page.text
        assert f'href="/certificates/{DONE}.json"' in page.text
        assert f'href="/reports/{DUMP}.html"' not in page.text
        assert f'href="/verification?id={VERIFIED}"' in page.text
        assert "pause" in page.words
        assert browser.get("/history?kind=verification").text.count('href="/dump?id=') == 0
        assert browser.get("/history?q=Lost+connection").words.count("Lost connection") >= 1
        assert "No operation matches." in browser.get("/history?q=nothing-like-it").words


def test_a_verification_shows_what_differs_first(tmp_path: Path) -> None:
    with opened(Shop(), tmp_path) as browser:
        words = browser.get("/verification").words
        assert words.index("shop.orders different") < words.index("shop.customers equal")
        assert "DDLs change it again and again" in words
        assert "it keeps no rows" in words
        assert "a sample of 25%" in words
        assert "7 keys in several rows" in words
        assert "1,900 rows can rightly differ: deletes are hidden" in words
        assert "waiting for an answer" in words
        assert "The repair deletes 5,000 rows of shop.orders" in words
        assert browser.get("/verification?id=" + "f" * 16).status == 409


def test_a_preview_shows_what_a_start_would_do_and_starts_nothing(tmp_path: Path) -> None:
    shop = Shop()
    with shop.owner() as owner, shop.console(owner, tmp_path) as console:
        browser = browser_of(console, logged_in=True)
        page = browser.get("/start?preview=1&table=shop.reviews&table=shop.payments")
        assert "It reads 2 tables, about 1,285,016 rows" in page.words
        assert "Slow: shop.payments: TiDB sorts the whole table" in page.words
        assert f"It would wait for the dump of shop.customers and 6 more ( {DUMP} )" in page.words
        assert owner.carried_out == []
        result = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page.text))
        assert re.fullmatch("[0-9a-f]{16}", result["dump_id"])
        stranger = browser_of(console).get("/start?preview=1")
        assert "To start it, log in" in stranger.words
        assert "form_key" not in stranger.text


def test_a_form_keeps_what_was_chosen_from_page_to_page(tmp_path: Path) -> None:
    with opened(Shop(tables=300), tmp_path) as browser:
        page = browser.get("/start?table=shop.orders&rules=shop.x*&where=a%3D1&readers=3&exact=yes&page=2")
        link = unescape(re.findall(r'href="(\?[^"]*)" rel="next"', page.text)[0])
        following = browser.get(f"/start{link}")
        for text in ("take out", "shop.x*", 'name="where" value="a=1"', 'name="readers" value="3"', 'name="exact" value="yes" checked'):
            assert text in page.text
            assert text in following.text
        assert "+ shop.orders<" not in page.text, "it is chosen already"


TYPED = (("table", "shop.orders"), ("where", "a=1"), ("exact", "yes"), ("readers", "3"))
WRONG = {
    "a number": (("readers", "many"), 400, "'many' is not a whole number"),
    "a predicate of a rule": (("rules", "shop.x*"), 400, "a predicate is for one table"),
    "a predicate of several tables": (("table", "shop.reviews"), 400, "a predicate is for one table"),
    "a table that is gone": (("table", "shop.gone"), 400, "the changefeed has no table shop.gone now"),
}


@pytest.mark.parametrize("way", ["preview", "start"])
@pytest.mark.parametrize("wrong", WRONG)
def test_what_a_form_cannot_mean_is_said_above_the_form_as_it_was_filled_in(wrong: str, way: str, tmp_path: Path) -> None:
    """N8: the form was gone, and what was typed with it."""
    shop = Shop()
    (name, value), status, says = WRONG[wrong]
    sent = [*(one for one in TYPED if one[0] != name or name == "table"), (name, value)]
    with shop.owner() as owner, shop.console(owner, tmp_path) as console:
        browser = browser_of(console, logged_in=True)
        page = browser.get(f"/start?{urlencode([*sent, ('preview', '1')])}") if way == "preview" else browser.command("/start", *sent)
        assert (page.status, says in page.words) == (status, True), page.words
        assert owner.carried_out == []
        for text in (
            f"{dict(sent).get('rules', '')}</textarea>",
            'value="shop.orders"',
            'name="where" value="a=1"',
            'name="exact" value="yes" checked',
        ):
            assert text in page.text
        assert f'name="readers" value="{dict(sent)["readers"]}"' in page.text
        assert "Show what it would do" in page.words


def test_a_rule_that_the_service_rejects_is_said_above_the_form(tmp_path: Path) -> None:
    shop = Shop()
    with shop.owner() as owner, shop.console(owner, tmp_path) as console:
        browser = browser_of(console, logged_in=True)
        for page in (browser.get("/start?preview=1&rules=shop"), browser.command("/start", ("rules", "shop"))):
            assert page.status == 409
            assert "Show what it would do" in page.words
            assert "shop</textarea>" in page.text


def test_links_of_one_dump_are_of_that_one(tmp_path: Path) -> None:
    shop = Shop()
    with shop.owner() as owner, shop.console(owner, tmp_path) as console:
        browser = browser_of(console, logged_in=True)
        other = browser.start(("rules", "shop.reviews"))
        page = browser.get(f"/dump?id={other}")
        assert "shop.reviews : queued" in page.words
        assert f"Dump {other}" in page.words
        assert "behind shop.customers and 6 more" in page.words
        assert f'name="dump_id" value="{other}"' in page.text
        assert browser.get("/dump?id=" + "f" * 16).status == 409


def test_a_dump_that_is_over_links_to_its_files(tmp_path: Path) -> None:
    shop = Shop()
    with shop.owner() as owner, shop.console(owner, tmp_path) as console:
        storage.write_atomically(storage.open_folder(str(tmp_path)), REPORTS.name(DUMP), b"<!doctype html>")
        owner.finish(DumpState.FAILED, reason="the source is gone")
        page = browser_of(console).get("/dump")
        assert "failed : the source is gone" in page.words
        assert f'href="/reports/{DUMP}.html"' in page.text
        assert f'href="/certificates/{DUMP}.json"' not in page.text


def test_a_sink_that_fails_and_an_error_are_shown(tmp_path: Path) -> None:
    with opened(Shop(last_error="source: no route to host"), tmp_path) as browser:
        words = browser.get("/").words
        assert "Last error: source: no route to host" in words
        assert "holds the dump" in words
        assert "3 of 7" in words
        assert "2 rows skipped by an operator" in words


def test_what_the_dump_waits_for_is_not_what_the_stream_waits_for(tmp_path: Path) -> None:
    shop = Shop()
    with shop.owner() as owner, shop.console(owner, tmp_path) as console:
        browser = browser_of(console)
        assert "Nothing holds the stream. The dump : held back by delivery" in browser.get("/").words
        usual = owner.changes
        owner.changes = lambda status: replace(usual(status), waiting_for="paused: dumpresume continues")
        owner.finish(DumpState.PAUSED)
        eventually(lambda: "The dump : paused: “Resume” continues" in browser.get("/").words)
        assert "Waiting for" not in browser.get("/").words
        owner.changes = lambda status: replace(usual(status), waiting_for="sink: it is slow", stream_waiting_for="sink: it is slow")
        eventually(lambda: "Waiting for sink: it is slow" in browser.get("/").words)


def test_a_dump_says_what_it_reads_since_when_and_who_requested_it(tmp_path: Path) -> None:
    with opened(Shop(), tmp_path) as browser:
        words = browser.get("/dump").words
        assert "shop.customers and 6 more : running" in words
        assert re.search(rf"Dump {DUMP} , started \d{{4}}-[-0-9]+ [:0-9]+ UTC by token 1f0c22ab at 10\.2\.0\.14:51822", words)
        assert "shop.customers, shop.orders, shop.order_items and 4 more" in browser.get("/history").words


def test_a_page_has_one_bound_of_each_sink(tmp_path: Path) -> None:
    with opened(Shop(), tmp_path) as browser:
        for path in ("/", "/dump"):
            shown = numbers(browser.get(path).text)
            assert [place for place in shown if "bound" in place or "limit" in place] == [f"sinks.{at}.bound_s" for at in range(3)]
        assert browser.get("/dump").words.count("rows at once") == 1


def test_how_a_table_is_read_is_a_page_without_a_button(tmp_path: Path) -> None:
    shop = Shop()
    with shop.owner() as owner, shop.console(owner, tmp_path) as console:
        browser = browser_of(console, logged_in=True)
        (link,) = re.findall(r'href="([^"]*)">How it is read<span class="hidden"> \(shop\.payments\)', browser.get("/dump").text)
        page = browser.get(unescape(link))
        assert "How shop.payments is read" in page.words
        assert "Read by clustered primary key (id)" in page.words
        assert "Slow: TiDB sorts the whole table for each chunk" in page.words
        assert f'href="/dump?id={DUMP}"' in page.text
        assert '<form method="post" action="/start"' not in page.text
        assert "Nothing makes it slow." in browser.get("/reading?table=shop.orders").words
        assert browser.get("/reading?table=shop.nothing").status == 400
        assert owner.carried_out == []


def test_the_range_of_charts_is_chosen(tmp_path: Path) -> None:
    with opened(Shop(), tmp_path) as browser:
        assert "The last hour" in browser.get("/").words
        page = browser.get("/?range=10+min")
        assert "The last 10 minutes" in page.words
        assert 'data-live="/live/stream?range=10+min"' in page.text, "an open page keeps it"


# ---- an outage -------------------------------------------------------------------------------------------------------


def test_in_an_outage_the_last_values_stay_with_their_age(tmp_path: Path) -> None:
    shop, state = Shop(), {"away": False}
    with shop.owner() as owner, shop.console(owner, tmp_path) as console:
        service = console.views.parts.service
        real = service._served
        service._served = replace(
            real,
            status=lambda: None if state["away"] else real.status(),
            hindered=lambda: "etcd does not answer: dumpresume later",
            owner_address=lambda: None,
        )
        browser = browser_of(console, logged_in=True)
        before = {path: numbers(browser.get(path).text) for path in ("/", "/dump")}
        assert "Outage" not in browser.get("/").words
        browser.get("/history")
        state["away"] = True
        console.views.forget()
        for path in ("/", "/dump"):
            page = browser.get(path)
            assert page.status == 503
            assert "Outage: this sidecar does not serve its changefeed now" in page.words
            assert "etcd does not answer: “Resume” later" in page.words
            assert re.search(r"What is shown is of [-0-9]+ [:0-9]+ UTC, \d+ s ago\.", page.words)
            assert numbers(page.text).keys() == before[path].keys()
        assert DONE in browser.get("/history").text
        assert "etcd does not answer" in browser.get("/dump?id=" + "f" * 16).words, "of what was not shown, there is nothing"
        state["away"] = False
        console.views.forget()
        page = browser.get("/")
        assert (page.status, "Outage" in page.words) == (200, False)


def test_without_measurements_a_page_says_so(console: ServedConsole, browser: Browser) -> None:
    assert "Nothing is measured yet" in browser.get("/").words
    assert "No chunk of this dump has closed" in browser.get("/dump").words
    assert "No dump has been started." in browser.get("/dump").words
    assert "No operation." in browser.get("/history").words
    assert "No sink has reported its tables yet" in browser.get("/start").words


def test_a_standby_points_to_the_owners_console(tmp_path: Path) -> None:
    with ServedConsole(standby(lambda: "10.0.0.9:8310"), tmp_path, shown=Shown(owner_console="http://10.0.0.9:8320")) as console:
        browser = browser_of(console)
        for path in ("/", "/dump", "/start", "/history", "/verification"):
            page = browser.get(path)
            assert page.status == 503
            assert "Owner 10.0.0.9:8310" in page.words
            assert '<a href="http://10.0.0.9:8320">' in page.text
        assert {browser.get(path).status for path in ("/checks", "/settings")} == {200}
    with ServedConsole(standby(lambda: None), tmp_path) as console:
        assert "not known yet" in browser_of(console).get("/").words


def test_a_standby_that_could_not_take_over_says_why(tmp_path: Path) -> None:
    shown = Shown(against_takeover=["tidb: Access <denied>"])
    with ServedConsole(standby(lambda: "10.0.0.9:8310"), tmp_path, shown=shown) as console:
        page = browser_of(console).get("/")
        assert "It could not take over: tidb: Access <denied>" in page.words
        assert "<denied>" not in page.text


def test_a_sidecar_that_cannot_serve_says_why(owner: Owner, tmp_path: Path) -> None:
    with console_of(owner, tmp_path, served={"status": lambda: None, "hindered": lambda: "etcd does not answer"}) as console:
        page = browser_of(console).get("/dump")
        assert (page.status, "etcd does not answer" in page.words) == (503, True)


def test_answers_are_used_again_for_a_moment(console: ServedConsole) -> None:
    requests = []
    query = console.views.parts.service.Query
    console.views.parts.service.Query = lambda *given: requests.append(1) or query(*given)  # type: ignore[method-assign,func-returns-value]
    browser = browser_of(console)
    for _ in range(5):
        browser.get("/")
    assert len(requests) < 5


# ---- secrets ---------------------------------------------------------------------------------------------------------


def test_no_page_has_a_secret(tmp_path: Path) -> None:
    planted = "Planted-5ecret"
    token = f"{planted}-{'t' * 16}"
    config = structs.replace(
        CONFIG,
        log=LogSection(uri=f"s3://bucket/log?key=AKIA&secret={planted}&endpoint=x"),
        sinks=(f"mysql://writer:{planted}@db:3306/", f"kafka://b:9092/t?sasl-password={planted}"),
        kafka=KafkaSection(client={"sasl.password": planted, "ssl.key.pem": planted}),
        console=ConsoleSection(listen=HERE, token_file="/run/secrets/console"),
    )
    shop = Shop()
    with shop.owner() as owner, shop.console(owner, tmp_path, config=config, console=config.console, token=token) as console:
        browser = Browser(console.port)
        browser.login(token)
        for path in [*PAGES, "/login", "/nothing", f"/reports/{DONE}.html", "/static/console.js"]:
            page = browser.get(path)
            assert planted not in page.text, path
            assert planted not in str(page.headers)
            assert not any(session in page.text for session in browser.cookies.values())
        assert "/run/secrets/console" in browser.get("/settings").words
        browser.post("/login", [("token", planted)])
        browser.post("/start", [("form_key", planted)])
        assert planted not in str(console.notes)


# ---- size ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Of an owner that has published once: making such a status again and again takes a core."""
    shop = Shop(tables=10_000, lanes=2_000, operations=1_000)
    owner = shop.owner()
    owner.step()
    with shop.console(owner, tmp_path_factory.mktemp("large")) as console:
        yield browser_of(console, logged_in=True)


@pytest.mark.parametrize("path", [*PAGES, "/dump?page=57", "/start?page=9", "/?lanes=40", "/history?page=20"])
def test_no_page_grows_with_what_there_is(large: Browser, path: str) -> None:
    page = large.get(path)
    assert page.status == 200
    assert len(page.text.encode()) <= PAGE_BYTES_MAX


def test_a_search_finds_any_table(large: Browser) -> None:
    for path in ("/dump?q=PART_07777", "/start?q=PART_07777"):
        text = large.get(path).text
        assert "part_07777" in text
        assert "part_07776" not in text
    assert "No table matches." in large.get("/dump?q=part_99999").words
    assert "shop.orders" in large.get("/dump?state=reading").words
    assert "part_00001" not in large.get("/dump?state=complete").text


def test_pages_have_all_tables(large: Browser) -> None:
    seen, address = set[str](), "?page=1"
    for _ in range(3):
        page = large.get(f"/dump{address}").text
        results = set(re.findall(r'<th scope="row">shop\.([^<]+)</th>', page))
        assert len(results) == 100
        assert not results & seen
        seen |= results
        address = unescape(re.findall(r'href="(\?[^"]*)" rel="next"', page)[0])
    last = large.get("/dump?page=101")
    assert "10,001 to 10,007 of 10,007" in last.words
    assert "of 10,007" in large.get("/start").words


def test_a_table_that_is_on_no_first_page_can_be_started(large: Browser) -> None:
    page = large.get("/start?preview=1&table=" + quote("shop.part_09999"))
    assert "It reads 1 table, about 500 rows" in page.words


def test_lanes_that_hold_the_stream_come_first(large: Browser) -> None:
    page = large.get("/").words
    assert page.index("kafka/shop-cdc/6 ") < page.index("kafka/shop-cdc/13 ")
    assert "of 2,000" in page


def test_an_address_that_chooses_thousands_is_no_large_page(large: Browser) -> None:
    page = large.get("/start?" + "&".join(f"table=t{number}" for number in range(5_000)))
    assert page.status == 200
    assert len(page.text.encode()) <= PAGE_BYTES_MAX
