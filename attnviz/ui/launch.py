"""Start of the app from the command line, as `streamlit run app.py`, from any directory and for an installed wheel."""

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
"""Addresses that stand for every network interface of the machine."""

PAGES = tuple(sorted(title.lower() for title in main.PAGES))
"""Names of the pages in an address."""


def script() -> Path:
    """Return the path of the app's script, next to Streamlit's settings; a wheel has both in attnviz/app."""
    installed = PACKAGE / "app" / "app.py"
    return installed if installed.is_file() else PACKAGE.parent / "app.py"


def launch(address: str, port: int, browser: bool, link: str = "") -> None:
    """Serve the app until Ctrl+C.

    Args:
        browser: whether to open a browser once the app answers, on a machine with a screen.
        link: page and choices to open: a link copied from the app, or only its part after the port.

    Raises:
        InputError: if the port or address cannot be used, or a setting of Streamlit or the public preset is invalid.
    """
    link = _path_of_link(link)
    hosts.public()  # an invalid preset is an error now, not at the first visit
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
    """Print the app's address and open a browser, if `launch` started this server."""
    if sys.argv[1:2] != [main.OPEN]:
        return
    host = server_util.get_display_address(config.get_option("server.address"))
    url = server_util.get_url(f"[{host}]" if ":" in host else host) + sys.argv[2]
    click.echo(f"attnviz is open at {url} (Ctrl+C stops it)")
    if not config.get_option("server.headless"):
        cli_util.open_browser(url)


def _path_of_link(link: str) -> str:
    """Return path and query of a link, without its host and port.

    Raises:
        InputError: if the link is malformed or names an unknown page.
    """
    try:
        parts = urlsplit(link)
    except ValueError as error:
        raise InputError(f"{quoted(link)} is not a link; copy one from the app.") from error
    page = parts.path.rpartition("/")[2]
    if page not in ("", *PAGES):
        raise InputError(f"{quoted(page)} is neither a page nor a file. Available pages: {', '.join(PAGES)}.")
    page = "" if page == main.PAGES[0].lower() else page  # the first page has no name in its address
    return f"/{page}?{quote(parts.query, safe='%=&+')}".rstrip("?")


def check_free(address: str, port: int, option: str = "--port") -> None:
    """Check that the app can listen on this address and port.

    Args:
        option: setting that chooses another port, for the message.

    Raises:
        InputError: if the address or the port cannot be used.
    """
    try:
        family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family) as probe:
            if os.name != "nt":  # on Windows, the option would let two servers listen on one port
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
    except (OSError, UnicodeError) as error:
        reasons = {
            errno.EADDRINUSE: f"Port {port} is in use; choose another one with {option}.",
            errno.EACCES: f"Port {port} is reserved for the system; choose 1024 or above with {option}.",
        }
        other = f"{quoted(address)} is not an address of this machine; 127.0.0.1 always is."
        raise InputError(reasons.get(error.errno if isinstance(error, OSError) else None, other)) from error
