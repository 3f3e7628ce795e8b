"""The app from the shell: what `streamlit run app.py` does, from any directory and for an installed wheel too."""

import errno
import os
import socket
import sys
from pathlib import Path
from urllib.parse import quote, urlsplit

import click
from streamlit import cli_util, config
from streamlit.web import cli
from streamlit.web.server import server_util

from attnviz.core.assets import PACKAGE
from attnviz.core.errors import InputError, quoted
from attnviz.ui import hosts, main

ANY = ("0.0.0.0", "::")
"""Addresses that stand for every interface of a machine."""

PAGES = tuple(sorted(title.lower() for title in main.PAGES))
"""Addresses of the pages."""


def script() -> Path:
    """The app's entry, with Streamlit's settings beside it in .streamlit; a wheel carries both in attnviz/app."""
    installed = PACKAGE / "app" / "app.py"
    return installed if installed.is_file() else PACKAGE.parent / "app.py"


def launch(address: str, port: int, browser: bool, link: str = "") -> None:
    """Serve the app until Ctrl+C.

    Args:
        browser: open a browser once the app answers, where there is a screen.
        link: what to open: a link that was copied from the app, or what stands in it after the port.

    Raises:
        InputError: if the app cannot listen there, or a setting of Streamlit or of the public preset cannot be read.
    """
    link = _target(link)
    hosts.public()  # what cannot be read of it is to be said now
    check_free(address, port)
    if address not in ANY:
        os.environ.setdefault("STREAMLIT_SERVER_ALLOWED_HOSTS", " ".join(("localhost", "127.0.0.1", address)))
    options = {"server.address": address, "server.port": port, "logger.hideWelcomeMessage": True}
    if not browser:
        options["server.headless"] = True
    flags = [f"--{name}={value}" for name, value in options.items()]
    try:
        cli.main(["run", str(script()), *flags, "--", main.OPEN, link], standalone_mode=False)
    except click.Abort:
        return  # Ctrl+C; the server has closed its connections
    except click.ClickException as error:
        raise InputError(error.format_message()) from error


def welcome() -> None:
    """Say where the app is and open a browser there, if `launch` started this server."""
    if sys.argv[1:2] != [main.OPEN]:
        return
    host = server_util.get_display_address(config.get_option("server.address"))
    url = server_util.get_url(f"[{host}]" if ":" in host else host) + sys.argv[2]
    click.echo(f"attnviz is open at {url} (Ctrl+C stops it)")
    if not config.get_option("server.headless"):
        cli_util.open_browser(url)


def _target(link: str) -> str:
    """The page and the settings of a link; the address in it does not matter.

    Raises:
        InputError: if there is no such page.
    """
    try:
        parts = urlsplit(link)
    except ValueError as error:
        raise InputError(f"{quoted(link)} is no link; copy one from the app.") from error
    page = parts.path.rpartition("/")[2]
    if page not in ("", *PAGES):
        raise InputError(f"There is no page and no file {quoted(page)}. The pages are: {', '.join(PAGES)}.")
    page = "" if page == main.PAGES[0].lower() else page  # the first page has no name in its address
    return f"/{page}?{quote(parts.query, safe='%=&+')}".rstrip("?")


def check_free(address: str, port: int, option: str = "--port") -> None:
    """Try whether the app can listen there.

    Args:
        option: where another port is chosen.

    Raises:
        InputError: if it cannot.
    """
    try:
        family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family) as probe:
            if os.name != "nt":  # there, the option would let two servers listen on one port
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
    except (OSError, UnicodeError) as error:
        raise InputError(_refused(address, port, getattr(error, "errno", None), option)) from error


def _refused(address: str, port: int, reason: int | None, option: str) -> str:
    if reason == errno.EADDRINUSE:
        return f"Port {port} is in use; choose another one with {option}."
    if reason == errno.EACCES:
        return f"Port {port} is kept for the system; choose one from 1024 on with {option}."
    return f"{quoted(address)} is no address of this machine; 127.0.0.1 always is."
