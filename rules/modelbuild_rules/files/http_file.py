"""http_file: a file from the network, pinned by its SHA-256."""

from __future__ import annotations

import re
from urllib.parse import unquote

from pydantic import Field

from modelbuild.api import Context, Files, Output, Provider, Resources, rule
from modelbuild.registry.address import SCHEME, parse_registry_address
from modelbuild_rules.files.origin import OriginAttrs, has_user
from modelbuild_rules.files.pinned import FileName, Sha256, is_file_name

ADDRESS = re.compile(r"(?:https?://[^/?#\s]+|file://)/(?:[^?#\s]*/)?(?P<name>[^/?#\s]*)(?:[?#]\S*)?")


class HttpFileAttrs(OriginAttrs):
    """A file that is downloaded once; the build fails if its SHA-256 differs.

    The output depends on `sha256` and the file name, not on the addresses: another mirror downloads nothing. To
    download another file, change `sha256` as well. The environment sets proxies and certificates (`https_proxy`,
    `no_proxy`, `SSL_CERT_FILE`).
    """

    urls: tuple[str, ...] = Field(min_length=1)
    """Addresses (http, https, file or oci) of the same bytes, tried in this order. An oci address names a manifest by
    its digest, `oci://registry.example/name@sha256:...`; `sha256` is that of a file in it."""

    sha256: Sha256
    """SHA-256 of the file, as `sha256sum FILE` prints it."""

    filename: FileName | None = None
    """The output's name; by default the last part of the first address. Required for an oci address."""

    executable: bool = False
    """Mark the file executable."""


EXAMPLE = """
[[http_file]]
name = "weights"
urls = ["https://host.example/net.safetensors"]
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
"""


@rule(attrs=HttpFileAttrs, example=EXAMPLE)
def http_file(ctx: Context[HttpFileAttrs]) -> tuple[Provider, ...]:
    attrs = ctx.attrs
    for index, url in enumerate(attrs.urls):
        if has_user(url):  # The build prints, records and attests addresses.
            message = "an address contains a user name or a password; expected it in a .netrc file (variable NETRC)"
            raise ctx.error(("urls", index), message)
        if url.startswith(SCHEME):
            address = parse_registry_address(url)
            if address is None or not address.digest:
                message = f"'{url}' does not pin a manifest; expected oci://HOST/NAME@sha256:DIGEST"
                raise ctx.error(("urls", index), message)
        elif not ADDRESS.fullmatch(url):
            message = f"'{url}' is not a file's address; expected http://HOST/PATH, https://HOST/PATH or file:///PATH"
            raise ctx.error(("urls", index), message)
    in_registry = attrs.urls[0].startswith(SCHEME)
    filename = attrs.filename or ("" if in_registry else unquote(ADDRESS.sub(r"\g<name>", attrs.urls[0])))
    if not is_file_name(filename):
        message = f"'{attrs.urls[0]}' does not end in a file name; expected the attribute 'filename'"
        raise ctx.error(("urls", 0), message)
    made = ctx.action(
        "download",
        step="http_file",
        outputs=[Output("file", filename)],
        params={"sha256": attrs.sha256, "executable": attrs.executable},
        unkeyed={"urls": list(attrs.urls)},
        network=True,
        resources=Resources(memory=128 << 20),
        description=f"download {filename}",
    )
    return Files((made["file"],)), attrs.origin((made["file"],), *attrs.urls)
