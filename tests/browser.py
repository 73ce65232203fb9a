"""Helpers for pages in a real browser: scripts, window size and console messages."""

from __future__ import annotations

from typing import Any

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement


def complaints(browser: Chrome) -> list[str]:
    """The messages on the browser's console since the last call."""
    entries = browser.get_log("browser")  # type: ignore[no-untyped-call]  # Selenium's lacks types
    return [str(entry["message"]) for entry in entries]


def resize(browser: Chrome, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def scheme(browser: Chrome, value: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": value}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def settle(browser: Chrome) -> None:
    """Wait until the page has been drawn."""
    browser.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
    )


def ask(browser: Chrome, script: str, *arguments: Any) -> Any:
    settle(browser)
    return browser.execute_script(f"return {script}", *arguments)


def one(browser: Chrome, selector: str) -> WebElement:
    return browser.find_element(By.CSS_SELECTOR, selector)
