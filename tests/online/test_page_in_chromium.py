"""The live page in a real browser with the real service: content and updates."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from tests.browser import ask, complaints, one
from tests.online.watching import (
    Open,
    chosen,
    fact,
    live,
    points,
    shown_as,
    text,
    until_counted,
    until_says,
    wait,
)

from switchmdp.agents import UCRL2RW, EvidencePSRL, Random
from switchmdp.memory.counts import REWARDS, ROWS
from switchmdp.online import Decisions
from switchmdp.online.server import Tokens
from switchmdp.online.views import beliefs

TOKEN = "a-token-of-some-length"


def test_the_page_shows_the_agents_policy_and_estimates(
    browser: Chrome, serve: Open, decisions: Decisions
) -> None:
    live(decisions, 150)
    serve(decisions)
    until_counted(browser, 150)
    told = beliefs(decisions)
    assert browser.title == "SWUCRL · switchmdp"
    parameters = "parameters of the agent: window 100, delta 0.05, width 1"
    assert text(browser, "#summary") == f"3 states · 2 actions · {parameters}"
    assert text(browser, "#status-text") == "live"
    policy = [row["policy"] for row in told["states"]]
    assert policy == decisions.learner.agent.policy.tolist()
    assert chosen(browser) == ["▶ chosen | " if a == 0 else " | ▶ chosen" for a in policy]
    plans = ask(
        browser, "[...document.querySelectorAll('#policy .plan')].map((p) => p.textContent)"
    )
    assert plans == [f"▶ action {action}" for action in policy]
    values = ask(
        browser, "[...document.querySelectorAll('#policy .value')].map((v) => v.textContent)"
    )
    estimates = [pair["estimate"] for row in told["states"] for pair in row["actions"]]
    assert len(values) == len(estimates)
    assert all(map(shown_as, values, estimates)), (values, estimates)
    assert fact(browser, "Decisions made") == "150"
    assert fact(browser, "Episode") == str(told["episode"]["number"])
    assert "100 of 100 steps" in text(browser, "#window-text")


def test_the_curve_grows_as_feedback_arrives(
    browser: Chrome, serve: Open, decisions: Decisions
) -> None:
    serve(decisions)
    until_says(browser, "#curve", "No feedback yet.")
    seen = []
    for total in (10, 30):
        live(decisions, total - decisions.learner.counted)
        until_counted(browser, total)
        seen.append(points(browser))
    assert seen == [10, 30]
    assert "Feedback 30" in text(browser, "#readout")
    live(decisions, 470)
    until_counted(browser, 500)
    assert 40 < points(browser) <= 80, "neighbours are joined"
    assert text(browser, "#readout").split(" (")[0].endswith(" to 500")


def test_bars_end_at_a_round_number_above_the_intervals(
    browser: Chrome, serve: Open, tmp_path: Path
) -> None:
    with Decisions(Random(1, 1), tmp_path, sync=False) as decisions:
        live(decisions, 400, lambda asked: 0.02)
        serve(decisions)
        until_counted(browser, 400)
        until_says(browser, "#why-note", "Bars run from 0 to 0.05:")
    assert "Each bar runs from 0 to 0.05:" in text(browser, "#policy-note")
    mean = "document.querySelector(arguments[0]).style.getPropertyValue('--mean')"
    for table in ("#policy", "#why-table"):
        assert float(ask(browser, mean, f"{table} .whisker")) == pytest.approx(0.4)


def test_an_alert_appears_after_a_change(browser: Chrome, serve: Open, tmp_path: Path) -> None:
    with Decisions(Random(1, 2), tmp_path, sync=False, signal_window=100) as decisions:
        live(decisions, 200, lambda asked: float(asked.action))
        serve(decisions)
        until_counted(browser, 200)
        assert "None so far." in text(browser, "#alerts")
        assert "No sign of a change" in text(browser, "#signal-text")
        live(decisions, 100, lambda asked: 0.0)
        until_counted(browser, 300)
        (alert,) = decisions.learner.alerts
        assert f"▲ Feedback {alert.step}" in text(browser, "#alerts")
        assert "the reward of action 1 in state 0, from 1.00 to " in text(browser, "#alerts")
        assert "▲ A change is likely" in text(browser, "#signal-text")
        assert float(str(one(browser, "#signal").get_attribute("aria-valuenow"))) >= 1
        assert len(browser.find_elements(By.CSS_SELECTOR, "#curve line.alert")) == 1


def test_a_restart_of_the_agent_appears(browser: Chrome, serve: Open, tmp_path: Path) -> None:
    with Decisions(UCRL2RW(1, 2, period=50), tmp_path, sync=False) as decisions:
        live(decisions, 40)
        serve(decisions)
        until_counted(browser, 40)
        assert "None so far." in text(browser, "#restarts")
        live(decisions, 30)
        until_counted(browser, 70)
        assert "Feedback 50 (" in text(browser, "#restarts")
        assert "the agent forgot its data" in text(browser, "#restarts")
        decisions.start_over()
        until_says(browser, "#restarts", "on request, the agent forgot everything")
        assert len(browser.find_elements(By.CSS_SELECTOR, "#curve line.restart")) == 2
        one(browser, "#curve").send_keys(Keys.END)
        assert "; the agent restarted" in text(browser, "#readout")
        assert complaints(browser) == []


def test_both_tables_show_the_same_estimates_after_a_change(
    browser: Chrome, serve: Open, tmp_path: Path
) -> None:
    with Decisions(EvidencePSRL(2, 3), tmp_path, sync=False) as decisions:
        for i in range(60):
            asked = decisions.decide(0, taken=i % 2)
            decisions.feedback(asked.id, float(i % 4 == 0), 1)
        agent = decisions.learner.agent
        agent.update_memory()
        agent.memory.keep(0, np.array([ROWS, REWARDS, 0, 0, 0, 0], np.uint8))
        decisions.feedback(decisions.decide(0, taken=1).id, 1.0, 1)
        serve(decisions)
        until_says(browser, "#why-note", "State 0, from the agent's memory.")
    script = """[...document.querySelectorAll(arguments[0])].map((cell) => ['.value', '.range'].map(
        (part) => cell.querySelector(part).textContent.trim()).join(""))"""
    above = ask(browser, script, "#policy tbody tr:first-child td")
    assert above == ask(browser, script, "#why-table tbody td:nth-child(2)")
    assert above[0].startswith("0.50")
    assert above[1].startswith("1.00")
    assert above[2] == "unknown0.025 to 0.97"
    why = "30 remembered rewards; the next states were forgotten after a suspected change"
    assert why in text(browser, "#policy")
    assert why in text(browser, "#why-table")


def test_the_page_shows_an_agent_without_policy_or_estimates(
    browser: Chrome, serve: Open, tmp_path: Path
) -> None:
    with Decisions(Random(2, 2), tmp_path, sync=False) as decisions:
        live(decisions, 5)
        serve(decisions)
        until_counted(browser, 5)
    assert set(chosen(browser)) == {" | "}
    assert "does not report its memory" in text(browser, "#window-text")
    assert fact(browser, "Expected reward rate") == "–"


def test_the_page_shows_the_fixed_policy_and_the_agents(
    browser: Chrome, serve: Open, decisions: Decisions
) -> None:
    live(decisions, 20)
    decisions.set_mode("shadow", [1, 1, 1])
    live(decisions, 20)
    serve(decisions)
    until_counted(browser, 40)
    assert fact(browser, "Who chooses") == "fixed policy"
    assert "of 20" in text(browser, "#facts")
    for row, own in zip(chosen(browser), decisions.learner.agent.policy, strict=True):
        assert row == ("▶ chosen | ■ fixed" if own == 0 else " | ▶ chosen ■ fixed")


def test_new_states_and_actions_appear(browser: Chrome, serve: Open, decisions: Decisions) -> None:
    live(decisions, 5)
    serve(decisions)
    until_counted(browser, 5)
    decisions.add_state([0])
    decisions.add_action([0])
    until_says(browser, "#policy thead", "StateAction 0Action 1Action 2")  # perhaps a poll later
    assert len(browser.find_elements(By.CSS_SELECTOR, "#policy tbody tr")) == 4
    assert "not available" in text(browser, "#policy tbody tr:last-child")


def test_the_page_asks_for_the_token_and_stores_it_in_the_tab(
    browser: Chrome, serve: Open, decisions: Decisions
) -> None:
    live(decisions, 5)
    serve(decisions, token=TOKEN)
    wait(browser, one(browser, "#ask").is_displayed)
    assert not one(browser, "#content").is_displayed()
    assert ask(browser, "document.activeElement.id") == "token"
    assert one(browser, "#token").get_attribute("type") == "password"
    for wrong, why in (("no such token", "ASCII"), ("notthetoken", "not accepted"), ("ö", "ASCII")):
        one(browser, "#token").clear()
        one(browser, "#token").send_keys(wrong, Keys.ENTER)
        until_says(browser, "#ask-why", why)
    one(browser, "#token").clear()
    one(browser, "#token").send_keys(TOKEN, Keys.ENTER)
    until_counted(browser, 5)
    assert not one(browser, "#ask").is_displayed()
    browser.refresh()
    until_counted(browser, 5)
    assert TOKEN not in browser.current_url
    assert all("401" in complaint for complaint in complaints(browser))


def test_the_page_says_that_a_token_does_not_allow_a_model(
    browser: Chrome, serve: Open, decisions: Decisions
) -> None:
    restricted = "another-token-of-some-length"
    serve(decisions, token=Tokens([TOKEN, f"{restricted} shop-*"]))
    wait(browser, one(browser, "#ask").is_displayed)
    one(browser, "#token").send_keys(restricted, Keys.ENTER)
    until_says(browser, "#range", "There are no models.")
    browser.execute_script("location.hash = '#/models/main'")
    until_says(browser, "#status-text", "the token does not allow the model 'main'.")
    assert all("40" in complaint for complaint in complaints(browser))


def test_the_page_reports_a_lost_service_and_reconnects_on_request(
    browser: Chrome, serve: Open, decisions: Decisions
) -> None:
    live(decisions, 5)
    service = serve(decisions)
    until_counted(browser, 5)
    service.stop()
    until_says(browser, "#status-text", "cannot be reached since")
    assert one(browser, "#retry").is_displayed()
    assert fact(browser, "Feedback counted") == "5", "what was known is still shown"
    live(decisions, 5)
    service.start()
    one(browser, "#retry").send_keys(Keys.ENTER)
    until_counted(browser, 10)
    assert text(browser, "#status-text") == "live"
    assert not one(browser, "#retry").is_displayed()
    assert all("ERR_" in complaint for complaint in complaints(browser))


def test_the_page_reconnects_by_itself(browser: Chrome, serve: Open, decisions: Decisions) -> None:
    service = serve(decisions)
    until_counted(browser, 0)
    service.stop()
    until_says(browser, "#status-text", "cannot be reached since")
    live(decisions, 5)
    service.start()
    until_counted(browser, 5)
    assert text(browser, "#status-text") == "live"
    assert all("ERR_" in complaint for complaint in complaints(browser))


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (503, "{}", "The service returned an error (503) since "),
        (200, "no JSON", "The answer of the service is not valid since "),
        (200, "[]", "The answer of the service is not valid since "),
    ],
)
def test_the_page_reports_errors_and_invalid_answers(
    browser: Chrome, serve: Open, decisions: Decisions, status: int, body: str, message: str
) -> None:
    serve(decisions)
    until_counted(browser, 0)
    browser.execute_script(
        "window.fetch = async () => new Response(arguments[1], { status: arguments[0] })",
        status, body,
    )  # fmt: skip
    wait(browser, one(browser, "#retry").is_displayed)
    assert text(browser, "#status-text").startswith(message)
    assert fact(browser, "Feedback counted") == "0", "what was known is still shown"


def test_a_hidden_page_sends_no_requests(
    browser: Chrome, serve: Open, decisions: Decisions
) -> None:
    serve(decisions)
    until_counted(browser, 0)
    browser.execute_script(
        "const send = window.fetch; window.sent = 0;"
        "window.fetch = (...request) => { window.sent++; return send(...request); }"
    )
    wait(browser, lambda: ask(browser, "window.sent") >= 2)  # a visible page does
    set_hidden(browser, hidden=True)
    sent = ask(browser, "window.sent")
    time.sleep(2.5)  # more than two intervals
    assert ask(browser, "window.sent") == sent
    set_hidden(browser, hidden=False)
    live(decisions, 5)
    until_counted(browser, 5)
    assert ask(browser, "window.sent") > sent


def test_a_hidden_page_is_paused(browser: Chrome, serve: Open, decisions: Decisions) -> None:
    serve(decisions)
    until_counted(browser, 0)
    browser.execute_script("window.fetch = () => new Promise(() => {})")  # never answers
    set_hidden(browser, hidden=True)
    assert text(browser, "#status-text") == "paused"


def set_hidden(browser: Chrome, *, hidden: bool) -> None:
    browser.execute_script(
        "Object.defineProperty(document, 'hidden', { value: arguments[0], configurable: true });"
        "document.dispatchEvent(new Event('visibilitychange'))",
        hidden,
    )
